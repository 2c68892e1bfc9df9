"""Steps left out because something is not finite: as if their batch had never been there."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from replicate.errors import NonFiniteError
from replicate.gradients.loss_scale import DynamicLossScale
from replicate.gradients.skipping import SKIPPING
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops.checks import user_errors
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys
from tests.replicate.gradients.towers import in_towers

v1 = tf.compat.v1

ROWS = 8
BATCHES = np.random.default_rng(0).normal(size=[8, ROWS, 3]).astype(np.float32)


def momentum():
    return v1.train.MomentumOptimizer(0.1, 0.9)


def adam():
    return v1.train.AdamOptimizer(0.1)


def empirical_kfac():
    layers = kfac.graph_layer_collection()
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=2,
        learning_rate=0.1,
        damping=0.1,
        layer_collection=layers,
        estimation_mode="empirical",
    )


class Training:
    """A linear model on some towers, whose batches the test chooses."""

    def __init__(self, make_optimizer, towers=1, use_resource=True, **settings):
        self.step = v1.train.get_or_create_global_step()
        self._batch = v1.placeholder(tf.float32, [ROWS, 3])
        self._smooth = v1.placeholder(tf.float32, [towers])
        shards = tf.split(self._batch, towers)

        def model(index):
            loss = self._loss(shards[index], self._smooth[index], make_optimizer)
            return TowerOptimizer(make_optimizer, **settings).minimize(loss, self.step)

        with v1.variable_scope("", use_resource=use_resource):
            self.train_op = in_towers(model, towers)
        self._start = [v1.global_variables_initializer(), v1.local_variables_initializer()]
        self.session = v1.Session()
        self.restart()

    def restart(self):
        """Gives all variables their initial values."""
        self.session.run(self._start)

    def _loss(self, inputs, smooth, make_optimizer):
        weights = v1.get_variable("w", initializer=tf.ones([3, 1]) / 4)
        outputs = inputs @ weights
        loss = tf.reduce_mean((outputs - 1.0) ** 2)
        if make_optimizer is empirical_kfac:
            layers = kfac.graph_layer_collection()
            layers.register_fully_connected(weights, inputs, outputs)
            layers.register_normal_predictive_distribution(
                outputs, targets=tf.ones_like(outputs), name="outputs"
            )
        # Where `smooth` is 0 this is 0, and its gradient NaN.
        return loss + 0.1 * tf.sqrt(smooth * weights[0, 0] ** 2)

    def run(self, batch, rough_tower=None):
        """Makes a step; in one tower the gradient, but not the loss, may be NaN."""
        smooth = [float(index != rough_tower) for index in range(self._smooth.shape[0])]
        with user_errors():
            self.session.run(self.train_op, {self._batch: batch, self._smooth: smooth})

    def values(self):
        """All variables but the counters of skipped steps."""
        values = self.session.run({v.op.name: v for v in v1.global_variables()})
        return {name: v for name, v in values.items() if not name.startswith("skip_nonfinite")}

    def counters(self):
        """Skipped steps, all of them and in a row."""
        [skipping] = v1.get_collection(SKIPPING)
        return self.session.run([skipping.total, skipping.in_a_row])


def with_nan(batch, row):
    batch = batch.copy()
    batch[row, 1] = np.nan
    return batch


def assert_identical(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("make_optimizer", "towers", "use_resource", "settings"),
    [
        (momentum, 2, False, {"clip_norm": 0.5, "pack_bytes": 1000}),
        (adam, 2, False, {"accumulate_steps": 2}),
        (momentum, 2, True, {"loss_scale": DynamicLossScale(4.0, growth_steps=3)}),
        pytest.param(empirical_kfac, 2, False, {}, marks=pytest.mark.broad),
        (empirical_kfac, 1, True, {"loss_scale": DynamicLossScale(4.0), "accumulate_steps": 2}),
    ],
)
def test_skipped_batches_change_nothing(graph, make_optimizer, towers, use_resource, settings):
    """With all towers' losses and gradients; variables of all kinds, bit by bit."""
    training = Training(make_optimizer, towers, use_resource, skip_nonfinite=2, **settings)
    runs = []
    for is_calm in (False, True):
        training.restart()
        for number, batch in enumerate(BATCHES):
            if not is_calm and number in (2, 5):
                training.run(with_nan(batch, row=ROWS - 1))
                if "loss_scale" not in settings:
                    training.run(batch, rough_tower=0)
            training.run(batch)
        runs.append(training.values())
        skipped = 2 if "loss_scale" in settings else 4
        assert training.counters() == [0 if is_calm else skipped, 0]
    assert_identical(*runs)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"batch": with_nan(BATCHES[0], 5)}, r"In tower 1 \(/device:CPU:1\), the loss tower_1/add"),
        (
            {"batch": BATCHES[0], "rough_tower": 1},
            r"In tower 1 \(/device:CPU:1\), the gradient of w",
        ),
    ],
)
def test_too_many_skipped_steps_raise_and_change_nothing(graph, bad, name):
    training = Training(momentum, 2, skip_nonfinite=2)
    training.run(BATCHES[0])
    for _ in range(2):
        training.run(**bad)
    before = training.values()
    with pytest.raises(NonFiniteError, match=rf"^{name} is NaN or infinite, after skip_nonf.*=2 s"):
        training.run(**bad)
    assert_identical(training.values(), before)
    assert training.counters() == [2, 2]
    training.run(BATCHES[1])
    assert training.counters() == [2, 0]
    training.run(**bad)
    assert training.counters() == [3, 1]


def test_overflow_of_the_scaled_loss_is_not_counted_until_the_scale_cannot_shrink(graph):
    training = Training(momentum, loss_scale=DynamicLossScale(4.0), skip_nonfinite=1)
    history = []
    for _ in range(3):
        training.run(BATCHES[0], rough_tower=0)
        history.append((training.values()["loss_scale/factor"], training.counters()))
    assert history == [(2.0, [0, 0]), (1.0, [0, 0]), (1.0, [1, 1])]
    with pytest.raises(NonFiniteError, match="gradient of w"):
        training.run(BATCHES[0], rough_tower=0)


def test_a_sum_of_finite_gradients_may_overflow(graph):
    def model(index):
        pairs = [(tf.constant(3e38), v1.get_variable("w", initializer=1.0))]
        return TowerOptimizer(momentum, skip_nonfinite=1).apply_gradients(pairs)

    train_op = in_towers(model, averages_loss=False)
    [weight] = v1.trainable_variables()
    [skipping] = v1.get_collection(SKIPPING)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        _, cause = session.run([train_op, skipping.cause])
        assert skipping.descriptions[cause - 1] == "Summed over towers, gradient of w"
        assert session.run(weight) == 1.0


def test_each_optimizer_skips_its_own_steps(graph):
    poison = v1.placeholder(tf.float32, [])
    a, b = (v1.get_variable(name, initializer=1.0) for name in "ab")
    train_op = tf.group(
        TowerOptimizer(momentum, skip_nonfinite=1).minimize(a * poison, var_list=[a]),
        TowerOptimizer(momentum, skip_nonfinite=1).minimize(b * 2.0, var_list=[b]),
    )
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op, {poison: np.inf})
        np.testing.assert_allclose(session.run([a, b]), [1.0, 0.8])
        counters = [(s.total, s.in_a_row) for s in v1.get_collection(SKIPPING)]
        assert session.run(counters) == [(1, 1), (0, 0)]


def test_sparse_gradients_are_watched(graph):
    table = v1.get_variable("table", initializer=tf.ones([4, 2]))
    factor = v1.placeholder(tf.float32, [])
    loss = tf.reduce_sum(tf.sqrt(factor * tf.gather(table, [1, 3])))
    train_op = TowerOptimizer(momentum, skip_nonfinite=1).minimize(loss)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op, {factor: 0.0})
        np.testing.assert_array_equal(session.run(table), np.ones([4, 2]))
        session.run(train_op, {factor: 1.0})
        np.testing.assert_allclose(session.run(table)[:, 0], [1, 0.95, 1, 0.95])


def norm_model_fn(features, labels, mode):
    """Batch normalization as layers write it: its updates are in UPDATE_OPS."""
    mean, _ = tf.nn.moments(features, [0])
    moving = v1.get_variable("moving_mean", initializer=tf.zeros([3]), trainable=False)
    update = v1.assign_sub(moving, 0.1 * (moving - mean))
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    weights = v1.get_variable("w", initializer=tf.ones([3]))
    loss = tf.reduce_mean(tf.linalg.matvec(features - mean, weights) ** 2)
    with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = TowerOptimizer(momentum, skip_nonfinite=1).minimize(loss)
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize(
    ("towers", "update_ops", "use_resource"),
    [(2, "mean", False), (2, "first", True), (2, "all", True)],
)
def test_statistics_of_a_skipped_batch_are_restored(graph, towers, update_ops, use_resource):
    v1.get_variable_scope().set_use_resource(use_resource)
    devices = [f"/cpu:{index}" for index in range(towers)]
    replicated = replicate_model_fn(norm_model_fn, devices=devices, update_ops=update_ops)
    batch = v1.placeholder(tf.float32, [ROWS, 3])
    spec = replicated(batch, None, ModeKeys.TRAIN)
    [moving] = [v for v in v1.global_variables() if v.op.name == "moving_mean"]
    expected = np.zeros(3)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(v1.local_variables_initializer())
        for values in BATCHES[:4]:
            before = session.run(moving)
            session.run(spec.train_op, {batch: with_nan(values, 0)})
            np.testing.assert_array_equal(session.run(moving), before)
            session.run(spec.train_op, {batch: values})
            shard = values[: ROWS // 2] if update_ops == "first" else values
            expected = 0.9 * expected + 0.1 * shard.mean(axis=0)
        if update_ops != "all":
            np.testing.assert_allclose(session.run(moving), expected, rtol=1e-5, atol=1e-7)


def test_state_and_summaries_are_made_in_the_first_tower(graph):
    Training(momentum, 2, skip_nonfinite=3)
    names = [v.op.name for v in v1.global_variables() if "skip" in v.op.name]
    assert names == ["skip_nonfinite/skipped_steps", "skip_nonfinite/skipped_in_a_row"]
    summaries = [summary.op.name for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)]
    assert summaries == ["skip_nonfinite/skipped", "skip_nonfinite/in_a_row"]
    assert not [key for key in graph.get_all_collection_keys() if "skip" in key]
