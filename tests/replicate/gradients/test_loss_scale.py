"""Loss scaling: 16-bit gradients that neither vanish nor stop training when they overflow."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradients.loss_scale import DynamicLossScale, all_finite
from replicate.gradients.tower_optimizer import TowerOptimizer
from tests.replicate.gradients.towers import in_towers

v1 = tf.compat.v1


def half_precision_loss(factor):
    """factor × w, computed in float16."""
    weight = v1.get_variable("w", initializer=1.0)
    product = tf.cast(weight, tf.float16) * tf.cast(factor, tf.float16)
    return tf.cast(product, tf.float32)


def train(factors, settings, towers=1):
    """One step per factor; returns w, the scale and the skipped steps after each of them."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        factor = v1.placeholder(tf.float32, [])

        def model(index):
            plain = v1.train.GradientDescentOptimizer(1.0)
            optimizer = TowerOptimizer(plain, loss_scale=settings)
            return optimizer.minimize(half_precision_loss(factor), step)

        train_op = in_towers(model, towers)
        values = {v.op.name.removeprefix("loss_scale/"): v for v in v1.global_variables()}
        history = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for value in factors:
                session.run(train_op, {factor: value})
                history.append(session.run(values))
        return history


def column(history, name):
    return [float(after[name]) for after in history]


def test_small_gradients_survive():
    tiny = 2.0**-26
    scaled = train([tiny * 2**12], DynamicLossScale(2.0**10))
    assert column(scaled, "w") == [pytest.approx(1 - tiny * 2**12, abs=1e-9)]


@pytest.mark.parametrize("towers", [1, 2])
def test_overflow_skips_the_step_and_halves_the_scale(towers):
    large = 1000.0
    history = train([large, large, large, 0.25], DynamicLossScale(2.0**8), towers)
    assert column(history, "factor") == [128.0, 64.0, 64.0, 64.0]
    assert column(history, "skipped_steps") == [1, 2, 2, 2]
    assert column(history, "global_step") == [0, 0, 1, 2]
    assert column(history, "w") == [1.0, 1.0, 1.0 - large, 0.75 - large]


def test_gradients_of_16_bits_count_once(graph):
    """Their sum has 16 bits, and becomes a gradient of a variable of 32 bits."""

    def model(index):
        weight = v1.get_variable("w", initializer=1.0)
        plain = v1.train.GradientDescentOptimizer(1.0)
        optimizer = TowerOptimizer(plain, loss_scale=DynamicLossScale(8.0))
        [(gradient, _)] = optimizer.compute_gradients(0.5 * weight, [weight])
        return optimizer.apply_gradients([(tf.cast(gradient, tf.float16), weight)])

    train_op = in_towers(model)
    [weight] = v1.trainable_variables()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        assert session.run(weight) == 0.5


def test_scale_doubles_after_enough_good_steps_in_a_row_and_never_falls_below_one():
    bad = np.nan
    history = train([0.5, 0.5, 0.5, bad, 0.5, bad, 0.5, 0.5, *[bad] * 4], DynamicLossScale(4.0, 2))
    assert column(history, "factor") == [4, 8, 8, 4, 4, 2, 2, 4, 2, 1, 1, 1]


def test_summaries_tell_scale_and_skipped_steps(graph):
    optimizer = TowerOptimizer(
        v1.train.GradientDescentOptimizer(1.0), loss_scale=DynamicLossScale()
    )
    optimizer.minimize(half_precision_loss(1.0))
    names = [summary.op.name for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)]
    assert names == ["loss_scale/current", "loss_scale/skipped"]


@pytest.mark.parametrize("given", [None, 3.0])
def test_the_wrapped_optimizer_sees_the_loss_as_it_is(graph, given, evaluate):
    seen = []

    class Looking(v1.train.GradientDescentOptimizer):
        def compute_gradients(self, loss, *args, **kwargs):
            seen.append(loss)
            return super().compute_gradients(loss, *args, **kwargs)

    optimizer = TowerOptimizer(Looking(1.0), loss_scale=DynamicLossScale(8.0))
    loss = half_precision_loss(0.5)
    grad_loss = None if given is None else tf.constant(given)
    (gradient, _), *_ = optimizer.compute_gradients(loss, grad_loss=grad_loss)
    assert seen == [loss]
    assert evaluate(gradient) == 4.0 * (given or 1.0)


def test_all_finite_looks_into_sparse_gradients(graph):
    variable = v1.get_variable("w", [2])
    bad = tf.IndexedSlices(tf.constant([np.nan]), tf.constant([0]), tf.constant([2]))
    with v1.Session() as session:
        assert session.run(all_finite([(tf.ones([2]), variable)]))
        assert not session.run(all_finite([(tf.ones([2]), variable), (bad, variable)]))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"initial": 0.0}, "initial must be a finite number > 0, got 0.0"),
        ({"initial": float("inf")}, "initial must be a finite number > 0, got inf"),
        ({"growth_steps": 0}, "growth_steps must be ≥ 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        DynamicLossScale(**settings)
