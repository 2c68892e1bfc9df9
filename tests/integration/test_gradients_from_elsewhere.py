"""Gradients from anywhere, changed in a tower or not: N towers train as one does."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

ROWS = np.random.default_rng(0).normal(size=[12, 3]).astype(np.float32)
IDS = np.array([0, 1, 2, 3, 1, 1, 0, 3, 3, 2, 1, 0])


def loss_and_variables(features, reduce=tf.reduce_mean):
    start = tf.constant([0.5, -1.0, 2.0])
    weights = v1.get_variable("weights", initializer=start, regularizer=tf.nn.l2_loss)
    table = v1.get_variable("table", initializer=tf.ones([5, 2]))
    rows = tf.nn.embedding_lookup(table, features["ids"])
    sums = tf.linalg.matvec(features["rows"], weights) + tf.reduce_sum(rows * [1.0, 3.0], axis=1)
    return reduce(tf.square(sums - 1.0)), [weights, table]


def bert(optimizer, loss, variables):
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1e3)
    return optimizer.apply_gradients(
        zip(gradients, variables, strict=True), v1.train.get_or_create_global_step()
    )


def unclipped(optimizer, loss, variables):
    return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables, strict=True))


def mixed(optimizer, loss, variables):
    """One gradient from each side, clipped together."""
    [computed] = optimizer.compute_gradients(loss, variables[:1])
    [sparse] = tf.gradients(loss, variables[1:])
    gradients, _ = tf.clip_by_global_norm([computed[0], sparse], 1e4)
    return optimizer.apply_gradients(zip(gradients, variables, strict=True))


def changed(optimizer, loss, variables):
    """Computed here, then changed by what a sum over towers allows."""
    pairs = optimizer.compute_gradients(loss, variables)
    return optimizer.apply_gradients(
        [(0.5 * tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs]
    )


def decayed(optimizer, loss, variables):
    """A term of weight decay, added to each tower's gradients."""
    pairs = optimizer.compute_gradients(loss, variables)
    return optimizer.apply_gradients(
        [
            (tf.convert_to_tensor(gradient) + 2.0 * variable, variable)
            for gradient, variable in pairs
        ]
    )


def penalized(optimizer, loss, variables):
    """Minimizes a total loss that contains a penalty on the weights."""
    return optimizer.minimize(loss + v1.losses.get_regularization_loss(), var_list=variables)


def minimized(optimizer, loss, variables):
    return optimizer.minimize(loss, var_list=variables)


def constants(optimizer, loss, variables):
    return optimizer.apply_gradients(
        [(np.array([1.0, 2.0, 3.0]), variables[0]), (tf.ones_like(variables[1]), variables[1])]
    )


def two_optimizers(optimizer, loss, variables):
    """Gradients that one TowerOptimizer computed and another applies, and outside ones."""
    other = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.01))
    return tf.group(
        optimizer.apply_gradients(other.compute_gradients(loss, variables[:1])),
        unclipped(other, loss, variables[1:]),
    )


def train(apply, towers, rows=12, settings=None, reduction=v1.losses.Reduction.MEAN, **how):
    """Returns all trainable variables after four steps."""
    total = tf.reduce_sum if reduction == v1.losses.Reduction.SUM else tf.reduce_mean

    def model_fn(features, mode):
        loss, variables = loss_and_variables(features, total)
        momentum = v1.train.MomentumOptimizer(0.01, 0.9)
        optimizer = replicate.TowerOptimizer(momentum, **(settings or {}))
        return replicate.EstimatorSpec(mode, loss=loss, train_op=apply(optimizer, loss, variables))

    return run(model_fn, towers, rows, loss_reduction=reduction, **how)


def run(model_fn, towers, rows=12, **how):
    """Returns all trainable variables of a replicated model after four steps."""
    with tf.Graph().as_default():
        devices = [f"/cpu:{index}" for index in range(towers)]
        replicated = replicate.replicate_model_fn(model_fn, devices=devices, **how)
        features = {"rows": tf.constant(ROWS[:rows]), "ids": tf.constant(IDS[:rows])}
        spec = replicated(features, None, "train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(4):
                session.run(spec.train_op)
            return {v.op.name: session.run(v) for v in v1.trainable_variables()}


WEIGHTED = {"rows": 11, "uneven": "weighted"}
ONE_ROW = {"rows": 1, "uneven": "weighted"}
SUM = {"reduction": v1.losses.Reduction.SUM}


def broad(*row):
    return pytest.param(*row, marks=pytest.mark.broad)


@pytest.mark.parametrize(
    ("apply", "how"),
    [
        (bert, {}),
        broad(unclipped, ONE_ROW),
        broad(unclipped, SUM),
        (unclipped, {"settings": {"accumulate_steps": 2, "skip_nonfinite": 1}}),
        (unclipped, {"settings": {"clip_norm": 0.1, "pack_bytes": 64}}),
        (mixed, {}),
        (minimized, {"settings": {"loss_scale": replicate.DynamicLossScale(initial=1000.0)}}),
        broad(minimized, {**SUM, "settings": {"accumulate_steps": 2}}),
        (minimized, {**ONE_ROW, "settings": {"skip_nonfinite": 1}}),
        (changed, {}),
        (decayed, WEIGHTED),
        broad(decayed, {"settings": {"accumulate_steps": 2}}),
        broad(penalized, WEIGHTED),
        (penalized, SUM),
        (constants, {}),
        (two_optimizers, {}),
    ],
)
def test_towers_equal_one_tower(apply, how):
    one = train(apply, 1, **how)
    assert np.abs(one["weights"] - [0.5, -1.0, 2.0]).max() > 1e-3
    assert np.abs(one["table"] - 1.0).max() > 1e-3
    many = train(apply, 3, **how)
    for name, expected in one.items():
        np.testing.assert_allclose(many[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


class ClippingExamples(v1.train.GradientDescentOptimizer):
    """Clips the gradient of each example, as for differential privacy, in compute_gradients."""

    def compute_gradients(self, loss, var_list, **kwargs):
        del kwargs
        examples = tf.unstack(loss)
        clipped = [
            tf.clip_by_global_norm(
                [tf.convert_to_tensor(g) for g in tf.gradients(example, var_list)], 0.5
            )[0]
            for example in examples
        ]
        means = [tf.add_n(each) / len(examples) for each in zip(*clipped, strict=True)]
        return list(zip(means, var_list, strict=True))


def test_examples_are_clipped_alike_on_any_number_of_towers():
    def model_fn(features, mode):
        losses, variables = loss_and_variables(features, tf.identity)
        optimizer = replicate.TowerOptimizer(ClippingExamples(0.1))
        train_op = optimizer.minimize(losses, var_list=variables)
        return replicate.EstimatorSpec(mode, loss=tf.reduce_mean(losses), train_op=train_op)

    one, four = (run(model_fn, towers) for towers in (1, 4))
    assert np.abs(one["weights"] - [0.5, -1.0, 2.0]).max() > 1e-3
    for name, expected in one.items():
        np.testing.assert_allclose(four[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_kfac_takes_gradients_from_elsewhere():
    def model_fn(features, mode):
        layers = kfac.graph_layer_collection()
        weights = v1.get_variable("weights", initializer=tf.constant([[0.5], [-1.0], [2.0]]))
        outputs = features["rows"] @ weights
        layers.register_fully_connected(weights, features["rows"], outputs)
        layers.register_normal_predictive_distribution(
            outputs, targets=tf.ones_like(outputs), name="outputs"
        )
        loss = tf.reduce_mean(tf.square(outputs - 1.0)) / 2
        optimizer = replicate.TowerOptimizer(
            lambda: kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=0.1, damping=0.1, layer_collection=layers, estimation_mode="empirical"
            )
        )
        train_op = unclipped(optimizer, loss, [weights])
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    one, three = (run(model_fn, towers)["weights"] for towers in (1, 3))
    assert np.abs(one - [[0.5], [-1.0], [2.0]]).max() > 1e-2
    np.testing.assert_allclose(three, one, rtol=1e-6, atol=1e-6)
