"""Optimizers that no one wrapped: N towers train as one does."""

import functools
import threading

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.private_names import regression_head
from replicate.compat.tf1_view import tensorflow1
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
Optimizer = v1.train.Optimizer

ROWS = np.random.default_rng(0).normal(size=[40, 3]).astype("f4")
LABELS = np.tanh(ROWS @ np.array([1.0, -2.0, 0.5], "f4"))
BATCHES = (7, 8, 5, 1)
TWO = ["/cpu:0", "/cpu:0"]
THREE = ["/cpu:0", "/cpu:1", "/cpu:2"]


class Momentum(Optimizer):
    """A program's own optimizer, by the methods that subclasses have to write."""

    def __init__(self, rate, decay):
        super().__init__(use_locking=False, name="Own")
        self._settings = rate, decay

    def _create_slots(self, var_list):
        for variable in var_list:
            self._zeros_slot(variable, "velocity", self._name)

    def _resource_apply_sparse(self, grad, handle, indices):
        dense = tf.IndexedSlices(grad, indices, handle.shape)
        return self._resource_apply_dense(tf.convert_to_tensor(dense), handle)

    def _resource_apply_dense(self, grad, handle):
        rate, decay = self._settings
        velocity = self.get_slot(handle, "velocity")
        with v1.control_dependencies([velocity.assign(decay * velocity + grad)]):
            return handle.assign_sub(rate * velocity.read_value()).op


class DecayByHand(Optimizer):
    """Overrides apply_gradients, assigns by hand and leaves the global step to the program."""

    def __init__(self, rate):
        super().__init__(False, "DecayByHand")
        self._rate = rate

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for gradient, variable in grads_and_vars:
            mean = v1.get_variable(
                f"{variable.op.name}/mean", variable.shape, trainable=False, initializer=tf.zeros
            )
            next_mean = 0.9 * mean + 0.1 * tf.convert_to_tensor(gradient)
            update = next_mean + 0.01 * variable
            assignments += [variable.assign(variable - self._rate * update), mean.assign(next_mean)]
        return v1.group(*assignments, name=name)


def network(features):
    hidden = tf.tanh(features @ v1.get_variable("hidden", [3, 4], initializer=constant(0.3)))
    table = v1.get_variable("table", [5, 4], initializer=constant(0.2))
    rows = tf.cast(tf.math.floormod(features[:, 0] * 3.0, 5.0), tf.int32)
    output = v1.get_variable("output", [4], initializer=constant(0.5))
    return tf.linalg.matvec(hidden + tf.nn.embedding_lookup(table, rows), output)


def constant(scale):
    def initializer(shape, dtype=tf.float32, partition_info=None):
        return tf.constant(scale * np.cos(np.arange(np.prod(shape))).reshape(shape), dtype)

    return initializer


def squared_error(features, labels):
    return tf.reduce_mean(tf.square(network(features) - labels))


def minimize(optimizer):
    def train(features, labels):
        loss = squared_error(features, labels)
        return loss, optimizer().minimize(loss, v1.train.get_global_step())

    return train


def by_hand(features, labels):
    loss = squared_error(features, labels)
    variables = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1e3)
    optimizer = DecayByHand(0.1)
    train_op = optimizer.apply_gradients(zip(gradients, variables, strict=True))
    step = v1.train.get_global_step()
    return loss, tf.group(train_op, [step.assign(step + 1)])


def two_optimizers(features, labels):
    loss = squared_error(features, labels)
    hidden = [v for v in v1.trainable_variables() if v.op.name in ("hidden", "table")]
    output = [v for v in v1.trainable_variables() if v.op.name == "output"]
    pairs = v1.train.AdamOptimizer(0.1).compute_gradients(-0.5 * loss, output)
    adversary = v1.train.AdamOptimizer(0.1, name="Adversary").apply_gradients(pairs)
    step = v1.train.get_global_step()
    train_op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step, var_list=hidden)
    return loss, tf.group(adversary, train_op)


def keyword_of_its_own(features, labels):
    class Scaled(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, scale=1.0):
            scaled = [(scale * tf.convert_to_tensor(g), var) for g, var in grads_and_vars]
            return super().apply_gradients(scaled, global_step)

    loss = squared_error(features, labels)
    optimizer = Scaled(0.1)
    return loss, optimizer.apply_gradients(optimizer.compute_gradients(loss), scale=0.5)


sgd = minimize(lambda: v1.train.GradientDescentOptimizer(0.1))
adam = minimize(lambda: v1.train.AdamOptimizer(0.1))

OPTIMIZERS = {
    "own subclass": minimize(lambda: Momentum(0.1, 0.9)),
    "wrapped before": minimize(lambda: TowerOptimizer(v1.train.AdamOptimizer(0.1))),
    "by hand": by_hand,
    "two optimizers": two_optimizers,
    "keyword of its own": keyword_of_its_own,
}


def spec_of(train):
    def model_fn(features, labels, mode):
        loss, train_op = train(features, labels)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def trained(train, devices, batches=BATCHES, wrap=True, reduction=None):
    """Trains on a few batches; returns the losses and all variables by their names."""
    model_fn = replicate.replicate_model_fn(
        spec_of(train), reduction, devices, uneven="weighted", wrap_optimizers=wrap
    )
    with tf.Graph().as_default(), user_errors():
        v1.train.create_global_step()
        features = v1.placeholder(tf.float32, [None, 3])
        labels = v1.placeholder(tf.float32, [None])
        spec = model_fn(features, labels, "train")
        losses, start = [], 0
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for rows in batches:
                part = slice(start, start + rows)
                feed = {features: ROWS[part], labels: LABELS[part]}
                losses.append(session.run([spec.loss, spec.train_op], feed)[0])
                start += rows
            values = session.run({v.op.name: v for v in v1.global_variables()})
    return losses, values


@functools.cache
def on_one_tower(train, batches=BATCHES):
    return trained(train, ["/cpu:0"], batches)


def assert_same(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=tolerance)
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_towers_train_as_one(name):
    one = on_one_tower(OPTIMIZERS[name])
    assert_same(trained(OPTIMIZERS[name], TWO), one)
    assert max(one[0]) > min(one[0])


def by_optimize_loss(features, labels):
    loss = squared_error(features, labels)
    step = v1.train.get_global_step()
    train_op = tensorflow1().contrib.layers.optimize_loss(
        loss, step, 0.1, "Adam", clip_gradients=1e3, summaries=["loss", "gradient_norm"]
    )
    return loss, train_op


def by_create_train_op(features, labels):
    loss = squared_error(features, labels)
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    return loss, tensorflow1().contrib.slim.learning.create_train_op(
        loss, optimizer, clip_gradient_norm=1e3
    )


@pytest.mark.parametrize("train", [by_optimize_loss, by_create_train_op])
def test_functions_of_contrib_train_on_two_towers_as_on_one(train):
    pytest.importorskip("tf_slim")
    batches = [7, 8, 5]  # create_train_op refuses the NaN that is the mean over no rows.
    assert_same(trained(train, TWO, batches), trained(train, ["/cpu:0"], batches))


def regularized(reduction):
    def train(features, labels):
        with v1.variable_scope("", regularizer=lambda weights: 0.1 * tf.reduce_sum(weights**2)):
            outputs = network(features)
        v1.losses.mean_squared_error(labels, outputs, reduction=reduction)
        loss = v1.losses.get_total_loss()
        return loss, v1.train.GradientDescentOptimizer(0.05).minimize(loss)

    return train


@pytest.mark.parametrize(
    "reduction", ["SUM", pytest.param("SUM_BY_NONZERO_WEIGHTS", marks=pytest.mark.broad)]
)
def test_the_reduction_of_the_models_losses_is_found(reduction):
    train = regularized(getattr(v1.losses.Reduction, reduction))
    assert_same(trained(train, TWO), trained(train, ["/cpu:0"]), 2e-6)


def with_loss(loss_of):
    def train(features, labels):
        loss = loss_of(network(features), labels, features)
        return loss, v1.train.GradientDescentOptimizer(0.002).minimize(loss)

    return train


def with_gradients(loss_of, module):
    def train(features, labels):
        loss = loss_of(network(features), labels, features)
        variables = v1.trainable_variables()
        pairs = zip(module.gradients(loss, variables), variables, strict=True)
        return loss, v1.train.GradientDescentOptimizer(0.002).apply_gradients(pairs)

    return train


def sum_of_squares(outputs, labels, features):
    return tf.reduce_sum(tf.square(outputs - labels))


def penalized(outputs, labels, features):
    penalty = tf.add_n([tf.nn.l2_loss(variable) for variable in v1.trainable_variables()])
    return 0.5 * (sum_of_squares(outputs, labels, features) + 0.1 * penalty)


def logits_of(outputs):
    return tf.stack([outputs, -outputs, 0.5 * outputs], axis=1)


def of_feature_columns(outputs, labels, features):
    ids = tf.cast(tf.math.floormod(features[:, 0] * 3.0, 5.0), tf.int64)
    column = tf.feature_column.categorical_column_with_identity("ids", 5)
    embedding = tf.feature_column.embedding_column(column, 2, initializer=constant(0.4))
    embedded = v1.feature_column.input_layer({"ids": ids}, [embedding])
    linear = v1.feature_column.linear_model({"ids": ids}, [column])[:, 0]
    outputs = outputs + linear + tf.reduce_sum(embedded, 1)
    return sum_of_squares(outputs, labels, features) + tf.nn.l2_loss(embedded)


def before_a_metric(outputs, labels, features):
    """A sum that only the function tells, and then the mean of a metric, which is no part of it."""
    loss = v1.losses.mean_squared_error(labels, outputs, reduction=v1.losses.Reduction.SUM)
    v1.losses.mean_squared_error(labels, outputs)
    return tf.while_loop(lambda total: total < 0, lambda total: [total], [loss])[0]


LOSSES = {
    "l2_loss": lambda outputs, labels, x: tf.nn.l2_loss(outputs - labels),
    "sum of a mean": lambda outputs, labels, x: tf.reduce_sum(
        tf.reduce_mean(tf.expand_dims(outputs - labels, 1) ** 2, axis=1)
    ),
    "cross entropy": lambda outputs, labels, x: tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.cast(labels > 0, tf.int32), logits=logits_of(outputs)
        )
    ),
    "log_softmax": lambda outputs, labels, x: (
        -tf.reduce_sum(
            tf.one_hot(tf.cast(labels > 0, tf.int32), 3) * tf.nn.log_softmax(logits_of(outputs))
        )
    ),
    "sum over a number": lambda *given: sum_of_squares(*given) / 8.0,
    "sum over the rows": lambda outputs, labels, x: (
        sum_of_squares(outputs, labels, x) / tf.cast(tf.shape(x)[0], tf.float32)
    ),
    "mean of sums": lambda outputs, labels, x: tf.reduce_mean(
        tf.reduce_sum(tf.expand_dims(outputs - labels, 1) ** 2, axis=1)
    ),
    "penalized": penalized,
    "feature columns": of_feature_columns,
    "before a metric": before_a_metric,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_graph_tells_sums_from_means(name, caplog):
    train = with_loss(LOSSES[name])
    devices = THREE if name == "penalized" else TWO
    assert_same(trained(train, devices, [7, 5]), trained(train, ["/cpu:0"], [7, 5]), 4e-6)
    assert "does not tell" not in caplog.text


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_sum_and_a_mean_are_told_apart_when_both_are_applied_at_the_end(wrapped):
    def train(features, labels):
        outputs = network(features)
        squares = tf.square(outputs - labels)
        first, *others = v1.trainable_variables()
        sums, means = (v1.train.GradientDescentOptimizer(rate) for rate in (0.002, 0.02))
        if wrapped:
            sums, means = TowerOptimizer(sums), TowerOptimizer(means)
        of_sum = sums.compute_gradients(tf.reduce_sum(squares), [first])
        of_mean = means.compute_gradients(tf.reduce_mean(squares), others)
        train_op = tf.group(sums.apply_gradients(of_sum), means.apply_gradients(of_mean))
        return tf.reduce_mean(squares), train_op

    assert_same(trained(train, TWO, [7, 5]), trained(train, ["/cpu:0"], [7, 5]), 4e-6)


@pytest.mark.parametrize("module", [tf, v1])
def test_losses_of_tf_gradients_are_judged(module):
    train = with_gradients(penalized, module)
    assert_same(trained(train, TWO, [7, 8]), trained(train, ["/cpu:0"], [7, 8]), 4e-6)


@pytest.mark.parametrize("make", [regression_head, replicate.RegressionHead])
def test_heads_tell_their_reduction(make):
    def train(features, labels):
        outputs = network(features)
        spec = make().create_estimator_spec(
            {},
            "train",
            tf.expand_dims(outputs, 1),
            tf.expand_dims(labels, 1),
            v1.train.GradientDescentOptimizer(0.01),
            regularization_losses=[tf.nn.l2_loss(v) for v in v1.trainable_variables()],
        )
        return spec.loss, spec.train_op

    assert_same(trained(train, TWO, [7, 8]), trained(train, ["/cpu:0"], [7, 8]), 4e-6)


def test_a_loss_that_the_graph_does_not_tell_is_named_once(caplog):
    def opaque(outputs, labels, features):
        squares = tf.square(outputs - labels)
        return tf.while_loop(lambda total: total < 0, lambda total: [total], [tf.norm(squares)])[0]

    trained(with_loss(opaque), TWO, [4])
    [line] = [each.getMessage() for each in caplog.records if "does not tell" in each.getMessage()]
    assert "averaged: if it is a sum, they train at 1/2 of its gradients" in line
    caplog.clear()
    trained(with_loss(sum_of_squares), TWO, [4], reduction=v1.losses.Reduction.MEAN)
    assert "is a sum over the rows of a batch, but loss_reduction says" in caplog.text


def test_nothing_is_left_behind(graph):
    before = dict(vars(Optimizer)), dict(vars(v1.losses)), tf.gradients, v1.gradients

    def fail(features, labels, mode):
        v1.losses.mean_squared_error(labels, network(features))
        assert "__getattribute__" in vars(Optimizer)
        raise KeyError("in the model")

    model_fn = replicate.replicate_model_fn(fail, None, TWO, wrap_optimizers=True)
    with pytest.raises(KeyError, match="in the model"):
        model_fn(tf.constant(ROWS), tf.constant(LABELS), "train")
    trained(adam, TWO, [4])
    after = dict(vars(Optimizer)), dict(vars(v1.losses)), tf.gradients, v1.gradients
    assert after == before


def test_other_graphs_and_threads_are_not_gathered():
    found = []

    def elsewhere():
        with tf.Graph().as_default():
            weight = v1.get_variable("w", initializer=3.0)
            train_op = v1.train.GradientDescentOptimizer(1.0).minimize(weight)
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                session.run(train_op)
                found.append(session.run(weight))

    def train(features, labels):
        elsewhere()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return sgd(features, labels)

    assert_same(trained(train, TWO, [8]), on_one_tower(sgd, (8,)))
    assert found == [2.0] * 4


def test_a_wrapper_of_a_tower_optimizer_is_gathered_once():
    class Wrapper(Optimizer):
        def __init__(self):
            super().__init__(False, "Wrapper")
            self._inner = TowerOptimizer(v1.train.AdamOptimizer(0.1))

        def compute_gradients(self, *args, **kwargs):
            return self._inner.compute_gradients(*args, **kwargs)

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            return self._inner.apply_gradients(grads_and_vars, global_step, name)

    assert_same(trained(minimize(Wrapper), TWO), on_one_tower(adam))


def assigned(features, labels):
    weight = v1.get_variable("w", initializer=3.0)
    return tf.reduce_mean(features) * weight, weight.assign_sub(0.1)


def test_a_train_op_without_an_optimizer_is_refused():
    with pytest.raises(ValueError, match=r"Cannot train on 2 towers: .* no optimizer of tf\.comp"):
        trained(assigned, TWO, [])
    with pytest.raises(ValueError, match="Please wrap optimizers with TowerOptimizer"):
        trained(adam, TWO, [], wrap=False)
    assert trained(assigned, ["/cpu:0"], [4])[1]["w"] == np.float32(2.9)


def in_a_branch(features, labels):
    loss = squared_error(features, labels)
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    return loss, tf.cond(loss > 0.0, lambda: optimizer.apply_gradients(pairs), tf.no_op)


@pytest.fixture(params=[1, 2])
def control_flow(request):
    """Builds `tf.cond` by control flow of version 1 and 2."""
    was_2 = v1.control_flow_v2_enabled()
    (v1.disable_control_flow_v2 if request.param == 1 else v1.enable_control_flow_v2)()
    yield
    (v1.enable_control_flow_v2 if was_2 else v1.disable_control_flow_v2)()


@pytest.mark.usefixtures("control_flow")
def test_gradients_in_a_branch_are_refused():
    with pytest.raises(ValueError, match=r"tower 0 \(/device:CPU:0\) calls apply_gradients inside"):
        trained(in_a_branch, TWO, [])
    assert max(trained(in_a_branch, ["/cpu:0"], [4])[0]) > 0


def test_nested_towers_are_refused():
    inner = replicate.replicate_model_fn(spec_of(sgd), devices=TWO)

    def model_fn(features, labels, mode):
        return inner(features, labels, mode)

    outer = replicate.replicate_model_fn(model_fn, devices=TWO, wrap_optimizers=True)
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"Cannot build 2 towers inside of tower 0"),
    ):
        outer(tf.constant(ROWS), tf.constant(LABELS), "train")
