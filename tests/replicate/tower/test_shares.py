"""Gradients count by their tower's share of the batch, wherever they are multiplied by it."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.tower.shares import GradientShare, as_gradients, share_of

v1 = tf.compat.v1


@pytest.fixture
def weights(graph):
    return [v1.get_variable(name, initializer=[3.0, 4.0]) for name in ("v", "w")]


def test_arrays_numbers_and_variables_become_tensors(weights):
    given = [np.ones([2]), [1, 2], weights[0], None]
    found = as_gradients([(gradient, weights[0]) for gradient in given])
    assert [None if g is None else (g.dtype, g.shape) for g, _ in found] == [
        (tf.float32, [2]),
        (tf.float32, [2]),
        (tf.float32, [2]),
        None,
    ]


def test_sums_of_float16_do_not_overflow_where_the_mean_does_not(weights, evaluate):
    share = GradientShare(0.5)
    large = tf.constant([40000.0], tf.float16)
    towers = [share.in_tower([(large, weights[0])]) for _ in range(2)]
    [(mean, _)] = share.of_sums([(towers[0][0][0] + towers[1][0][0], weights[0])])
    assert evaluate(mean) == [40000.0]


def test_gradients_that_are_added_up_stay_as_they_are(weights):
    pairs = [(tf.constant([8.0]), weights[0])]
    assert GradientShare().in_tower(pairs)[0][0] is pairs[0][0]
    assert GradientShare().of_sums(pairs)[0][0] is pairs[0][0]
    assert share_of(pairs[0][0], 1.0) is pairs[0][0]
