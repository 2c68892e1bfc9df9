"""Gradients of a scaled loss are told from others, and from those of another optimizer."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradient_shares import as_gradients
from replicate.loss_scale import DynamicLossScale
from replicate.tower_optimizer import TowerOptimizer

v1 = tf.compat.v1


def optimizer(**settings):
    return TowerOptimizer(v1.train.GradientDescentOptimizer(1.0), **settings)


@pytest.fixture
def weights(graph):
    return [v1.get_variable(name, initializer=[3.0, 4.0]) for name in ("v", "w")]


def loss_of(weights):
    return tf.add_n([tf.reduce_sum(weight) for weight in weights])


def test_arrays_numbers_and_variables_become_tensors(weights):
    given = [np.ones([2]), [1, 2], weights[0], None]
    found = as_gradients([(gradient, weights[0]) for gradient in given])
    assert [None if g is None else (g.dtype, g.shape) for g, _ in found] == [
        (tf.float32, [2]),
        (tf.float32, [2]),
        (tf.float32, [2]),
        None,
    ]


def test_gradients_from_elsewhere_are_not_unscaled(weights):
    scaled = optimizer(loss_scale=DynamicLossScale(initial=1000.0))
    loss = loss_of(weights)
    pairs = scaled.compute_gradients(loss, weights[:1])
    train_op = scaled.apply_gradients([*pairs, (tf.gradients(loss, weights[1])[0], weights[1])])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        np.testing.assert_allclose(session.run(weights), [[2.0, 3.0]] * 2, rtol=1e-6)


def test_loss_scale_without_a_scaled_gradient_is_refused(weights):
    pairs = list(zip(tf.gradients(loss_of(weights), weights), weights, strict=True))
    with pytest.raises(ValueError, match=r"loss_scale=.*nothing scales their loss. Replace tf\.gr"):
        optimizer(loss_scale=DynamicLossScale()).apply_gradients(pairs)


@pytest.mark.parametrize("settings", [{}, {"loss_scale": DynamicLossScale()}])
def test_loss_scale_of_another_optimizer_is_refused(weights, settings):
    pairs = optimizer(loss_scale=DynamicLossScale()).compute_gradients(loss_of(weights))
    with pytest.raises(ValueError, match=r"gradient of v: another TowerOptimizer computed it"):
        optimizer(**settings).apply_gradients(pairs)


def test_scaled_and_other_gradients_of_one_variable_are_refused(weights):
    scaled = optimizer(loss_scale=DynamicLossScale())
    pairs = scaled.compute_gradients(loss_of(weights))
    with pytest.raises(ValueError, match=r"gradients of v: some come from compute_gradients, with"):
        scaled.apply_gradients([*pairs, (tf.ones([2]), weights[0])])
