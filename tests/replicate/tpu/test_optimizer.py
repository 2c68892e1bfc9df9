"""CrossShardOptimizer: the wrapped optimizer on one device, a TowerOptimizer on several."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import tpu
from replicate.model_fn import replicate_model_fn

v1 = tf.compat.v1
Reduction = v1.losses.Reduction
TWO = ["/cpu:0", "/cpu:1"]
X = np.array([1.0, 2.0, 3.0, 10.0], "f4")


def train(wrap, devices=None, loss_reduction=Reduction.MEAN):
    """Returns a weight after two steps with momentum, and the slot."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable("weight", [], initializer=v1.initializers.ones())
        rows = weight**2 * features
        total = tf.reduce_sum if loss_reduction == Reduction.SUM else tf.reduce_mean
        loss = total(rows)
        optimizer = wrap(v1.train.MomentumOptimizer(0.01, 0.9))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        optimizers.append(optimizer)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    optimizers = []
    if devices is not None:
        model_fn = replicate_model_fn(model_fn, loss_reduction, devices)
    with tf.Graph().as_default():
        v1.train.create_global_step()
        spec = model_fn(tf.constant(X), None, "train")
        (weight,) = v1.trainable_variables()
        slot = optimizers[-1].get_slot(weight, "momentum")
        assert optimizers[-1].get_slot_names() == ["momentum"]
        assert [each.op.name for each in optimizers[-1].variables()] == [slot.op.name]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(2):
                session.run(spec.train_op)
            assert session.run(v1.train.get_global_step()) == 2
            return session.run([weight, slot])


@pytest.mark.parametrize(
    ("devices", "reduction"),
    [(None, Reduction.MEAN), (TWO[:1], Reduction.SUM), (TWO, Reduction.MEAN), (TWO, Reduction.SUM)],
)
def test_steps_are_those_of_the_wrapped_optimizer(devices, reduction):
    def wrap(optimizer):
        return tpu.CrossShardOptimizer(optimizer, reduction=reduction)

    expected = train(lambda optimizer: optimizer, loss_reduction=reduction)
    np.testing.assert_allclose(train(wrap, devices, reduction), expected, rtol=1e-6)


def test_a_tower_optimizer_may_be_inside_or_around_it():
    expected = train(lambda optimizer: optimizer)
    for outer, inner in [
        (tpu.CrossShardOptimizer, replicate.TowerOptimizer),
        (replicate.TowerOptimizer, tpu.CrossShardOptimizer),
    ]:
        found = train(lambda each, outer=outer, inner=inner: outer(inner(each)), TWO)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_gradients_may_be_taken_by_hand(graph):
    weight = v1.get_variable("weight", initializer=2.0)
    optimizer = tpu.CrossShardOptimizer(v1.train.GradientDescentOptimizer(0.1), name="own")
    pairs = optimizer.compute_gradients(weight**2, [weight], aggregation_method=None)
    doubled = [(2 * gradient, variable) for gradient, variable in pairs]
    step = optimizer.apply_gradients(doubled, name="step")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(weight), 2 - 0.1 * 8, rtol=1e-6)
    assert optimizer.get_name() == "own"


@pytest.mark.parametrize(
    ("reduction", "of_towers", "text"),
    [
        (Reduction.SUM, Reduction.MEAN, r"'weighted_sum'\) .* 2 towers whose losses are averaged"),
        (Reduction.SUM, Reduction.SUM_BY_NONZERO_WEIGHTS,
         r"'weighted_sum'\) .* 2 towers whose losses are averaged"),
        (Reduction.MEAN, Reduction.SUM, r"'weighted_mean'\) .* 2 towers whose losses are summed"),
    ],
)  # fmt: skip
def test_another_reduction_than_that_of_the_towers_is_refused(reduction, of_towers, text):
    with pytest.raises(ValueError, match=text):
        train(lambda optimizer: tpu.CrossShardOptimizer(optimizer, reduction), TWO, of_towers)


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match=r"wraps a tf\.compat\.v1\.train\.Optimizer, got 3"):
        tpu.CrossShardOptimizer(3)
    with pytest.raises(TypeError, match="CrossShardOptimizer got the Keras optimizer"):
        tpu.CrossShardOptimizer(tf.keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match=r"reduction must be one of .*, got 'none'"):
        tpu.CrossShardOptimizer(v1.train.AdamOptimizer(), "none")
