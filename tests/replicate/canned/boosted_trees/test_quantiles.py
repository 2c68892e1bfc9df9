"""Quantiles: boundaries and buckets beside NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.boosted_trees.quantiles import bucketed, quantile_boundaries

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)


def computed(make):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(make())


def boundaries(values, weights, count):
    return computed(lambda: quantile_boundaries(tf.constant(values), tf.constant(weights), count))


def test_few_values_are_all_boundaries():
    values = np.array([[3, 1], [1, 1], [2, 1], [3, 1], [9, 9]], np.float32)
    weights = np.array([1, 1, 1, 1, 0], np.float32)
    found = boundaries(values, weights, 4)
    np.testing.assert_array_equal(found, [[1, 2, 3], [1, np.inf, np.inf]])


@pytest.mark.parametrize("is_weighted", [False, True])
def test_little_weight_lies_between_boundaries(is_weighted):
    values = RANDOM.normal(size=[500, 2]).astype(np.float32).round(2)
    weights = RANDOM.uniform(0.5, 2, 500) if is_weighted else np.ones(500)
    for column, found in zip(values.T, boundaries(values, weights.astype("f4"), 20), strict=True):
        assert len(found) == 20
        assert found[[0, -1]].tolist() == [column.min(), column.max()]
        between = [
            weights[(low < column) & (column < high)].sum()
            for low, high in itertools.pairwise(found)
        ]
        # Each step leaves out a twentieth, and boundaries beyond the twentieth join two steps.
        assert np.median(between) <= weights.sum() / 20
        assert max(between) <= weights.sum() / 10


def test_buckets_end_at_their_boundaries():
    limits = np.array([[0.0, 1.0, 2.0], [5.0, np.inf, np.inf]], np.float32)
    values = np.array([[-1, 4], [0, 5], [0.5, 6], [2, 7], [3, 8]], np.float32)
    found = computed(lambda: bucketed(tf.constant(values), tf.constant(limits)))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [1, 0], [2, 0], [2, 0]])
