"""Factors of dense layers, of generic parameters, and of scale and shift."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import (
    DiagonalKroneckerFactor,
    FullyConnectedKroneckerFactor,
)
from kfac.fisher_factors.scale_shift import per_example_sum

v1 = tf.compat.v1


def make(towers, has_bias=False, dtype=tf.float64):
    tensors = tuple(tf.constant(rows, dtype) for rows in towers)
    return FullyConnectedKroneckerFactor((tensors,), has_bias, ("",) * len(towers), name="fc/input")


@pytest.mark.parametrize("sizes", [(2, 7, 3), (12, 0, 0)])
def test_towers_give_the_statistic_of_the_whole_batch(graph, session, sizes):
    rows = np.random.RandomState(0).randn(12, 5)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    found = session.run(make(parts, has_bias=True).batch_statistic())
    x = np.hstack([rows, np.ones([12, 1])])
    np.testing.assert_allclose(found, x.T @ x / 12, rtol=1e-13)


def test_each_tower_is_computed_on_its_device(graph):
    tensors = (tf.ones([2, 2]), tf.ones([2, 2]))
    factor = FullyConnectedKroneckerFactor((tensors,), False, ("/cpu:1", "/cpu:2"), name="fc/input")
    factor.batch_statistic()
    products = [op.device for op in graph.get_operations() if op.type == "MatMul"]
    assert products == ["/device:CPU:1", "/device:CPU:2"]


@pytest.mark.parametrize("shape", [[None, None], [4, 3, 2]])
def test_wrong_shape(graph, shape):
    x = v1.placeholder(tf.float32, shape, name="activations")
    factor = FullyConnectedKroneckerFactor(((x,),), False, ("",), name="fc/input")
    with pytest.raises(ValueError, match=r"'fc/input': tensor 'activations:0' has shape.*2 axes"):
        factor.instantiate_cov_variables()


def test_half_precision_is_summed_in_single(graph, session):
    factor = make([np.full([5000, 1], 4.0)], dtype=tf.float16)
    assert factor.dtype == tf.float32
    assert session.run(factor.batch_statistic()) == [[16.0]]


def test_ids_are_counted(graph, session):
    towers = (tf.constant([0, 2, 2]), (tf.constant([3]), tf.constant([2])))
    factor = DiagonalKroneckerFactor((towers,), 4, True, tf.float64, ("", ""), name="embedding")
    assert (factor.dimension, factor.dtype) == (5, tf.float64)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), [0.2, 0, 0.6, 0.2, 1.0])
    several = DiagonalKroneckerFactor(
        ((tf.constant([[0, 1], [1, 1]]),),), 3, False, tf.float16, ("",), name="bag"
    )
    np.testing.assert_allclose(session.run(several.batch_statistic()), [0.5, 1.5, 0])
    assert several.dtype == tf.float32


def test_sum_over_broadcast_axes(graph, session):
    x = np.random.RandomState(0).randn(6, 4, 3)
    axes = {(4, 3): (), (3,): (1,), (4, 1): (2,), (1, 4, 1): (2,), (): (1, 2)}
    found = session.run({shape: per_example_sum(tf.constant(x), shape) for shape in axes})
    for shape, summed in axes.items():
        expected = x.sum(summed).reshape(6, -1)
        np.testing.assert_allclose(found[shape], expected, rtol=1e-12, atol=1e-14)
