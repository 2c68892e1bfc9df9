"""Training on towers with each reduction of gradients: the same weights as with "last"."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1

ROWS, WIDTH, HIDDEN, WORDS = 12, 32, 24, 50
STEPS = 4


def batches(skips):
    """Yields batches; with `skips` one of them has a NaN, in the rows of the second tower."""
    random = np.random.default_rng(3)
    for step in range(STEPS):
        features = random.normal(size=[ROWS, WIDTH]).astype(np.float32)
        if skips and step == 1:
            features[ROWS // 2] = np.nan
        yield features, random.integers(0, WORDS, [ROWS, 2]).astype(np.int32)


def momentum():
    return v1.train.MomentumOptimizer(0.1, 0.9)


def empirical_kfac():
    return kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.05,
        damping=0.1,
        layer_collection=kfac.graph_layer_collection(),
        invert_every=2,
        cov_update_every=1,
        momentum=0.9,
        estimation_mode="empirical",
    )


def starting_values(name, shape):
    """Returns numbers that do not depend on the number of towers."""
    values = np.random.default_rng([len(name), *shape]).normal(size=shape) / shape[0] ** 0.5
    return values.astype(np.float32)


def weight(name, shape):
    return v1.get_variable(name, initializer=starting_values(name, shape))


def model_fn(make_optimizer, settings):
    """Returns a model_fn with dense and sparse gradients, and a variable for the first tower."""

    def build(features, labels, mode):
        tower = replicate.current_tower()
        kernel, out = weight("kernel", [WIDTH, HIDDEN]), weight("out", [HIDDEN, 3])
        table, extra = weight("table", [WORDS, 3]), weight("extra", [3])
        weight("idle", [7])
        inner = features @ kernel
        hidden = tf.tanh(inner)
        outputs = hidden @ out
        if make_optimizer is empirical_kfac:
            layers = kfac.graph_layer_collection()
            layers.register_fully_connected(kernel, features, inner)
            layers.register_fully_connected(out, hidden, outputs)
            layers.register_normal_predictive_distribution(
                outputs, targets=tf.ones_like(outputs), name="outputs"
            )
            loss = tf.reduce_mean((outputs - 1.0) ** 2)
        else:
            outputs += tf.reduce_sum(tf.nn.embedding_lookup(table, labels), axis=1)
            loss = tf.reduce_mean((outputs - 1.0) ** 2)
            loss += 0.1 * tf.reduce_sum(extra**2) if tower.is_first else 0.0
        optimizer = replicate.TowerOptimizer(make_optimizer, **settings)
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return build


def trained(make_optimizer, reduction, runs=1, **settings):
    """Trains a few steps, `runs` times; returns all variables after each time."""
    with tf.Graph().as_default():
        features = v1.placeholder(tf.float32, [ROWS, WIDTH])
        labels = v1.placeholder(tf.int32, [ROWS, 2])
        replicated = replicate.replicate_model_fn(
            model_fn(make_optimizer, settings),
            v1.losses.Reduction.MEAN,
            ["/cpu:1", "/cpu:2", "/cpu:3"],
            reduction=reduction,
        )
        train_op = replicated(features, labels, replicate.ModeKeys.TRAIN).train_op
        results = []
        with v1.Session() as session, user_errors():
            for _ in range(runs):
                session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
                for batch, words in batches("skip_nonfinite" in settings):
                    session.run(train_op, {features: batch, labels: words})
                results.append(session.run({v.op.name: v for v in v1.global_variables()}))
        return results


def relative_difference(found, expected):
    """Returns the largest norm of a variable's difference over the norm of the variable."""
    assert sorted(found) == sorted(expected)
    return max(
        np.linalg.norm(found[name] - values) / (np.linalg.norm(values) or 1.0)
        for name, values in expected.items()
    )


EVERYTHING = {
    "accumulate_steps": 2,
    "loss_scale": replicate.DynamicLossScale(8.0),
    "pack_bytes": 2000,
    "skip_nonfinite": 1,
}


@pytest.mark.parametrize(
    ("make_optimizer", "settings"),
    [
        (momentum, EVERYTHING),
        pytest.param(empirical_kfac, {"skip_nonfinite": 1}, marks=pytest.mark.slow),
    ],
)
def test_weights_do_not_depend_on_the_reduction(make_optimizer, settings):
    [expected] = trained(make_optimizer, "last", **settings)
    [sharded] = trained(make_optimizer, "sharded", **settings)
    first, second = trained(make_optimizer, "tree", runs=2, **settings)
    assert relative_difference(first, expected) < 2e-6
    for name, values in expected.items():
        np.testing.assert_array_equal(sharded[name], values, err_msg=name)
        np.testing.assert_array_equal(second[name], first[name], err_msg=name)
    start = starting_values("kernel", [WIDTH, HIDDEN])
    assert relative_difference({"kernel": expected["kernel"]}, {"kernel": start}) > 1e-3


def test_only_sums_leave_the_worker():
    """In a cluster with variables on a parameter server."""
    worker = "/job:worker/task:1"
    setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=worker)
    with tf.Graph().as_default() as graph, v1.device(setter):
        replicated = replicate.replicate_model_fn(
            model_fn(momentum, {}),
            v1.losses.Reduction.MEAN,
            ["/cpu:1", "/cpu:2"],
            reduction="sharded",
        )
        batch = tf.zeros([4, WIDTH]), tf.zeros([4, 2], tf.int32)
        replicated(*batch, replicate.ModeKeys.TRAIN)
        sums = [op for op in graph.get_operations() if op.type == "AddN" and len(op.inputs) == 2]
        additions = [op for op in sums if op.name.startswith("gradient_aggregating")]
    assert {op.device for op in additions} == {f"{worker}/device:CPU:{index}" for index in (1, 2)}
    [total] = [op for op in graph.get_operations() if op.name.endswith("kernel/sum_grads")]
    assert "/job:ps" in total.device
