"""Factors of dense layers, of generic parameters, and of scale and shift."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors import (
    DiagonalKroneckerFactor,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
    NaiveDiagonalFactor,
    NaiveFullFactor,
    ScaleAndShiftDiagonalFactor,
    ScaleAndShiftFullFactor,
)
from kfac.fisher_factors.scale_shift import per_example_sum

v1 = tf.compat.v1
X, G = np.random.RandomState(0).randn(2, 6, 4, 3)


def make(towers, has_bias=False, dtype=tf.float64):
    tensors = tuple(tf.constant(rows, dtype) for rows in towers)
    return FullyConnectedKroneckerFactor((tensors,), has_bias, ("",) * len(towers), name="fc/input")


@pytest.mark.parametrize(
    ("has_bias", "expected"),
    [
        (False, [[5, 7], [7, 10]]),
        (True, [[5, 7, 2], [7, 10, 3], [2, 3, 1]]),
    ],
)
def test_second_moment(graph, session, has_bias, expected):
    factor = make([[[1.0, 2.0], [3.0, 4.0]]], has_bias)
    assert factor.dimension == len(expected)
    np.testing.assert_allclose(session.run(factor.batch_statistic()), expected, rtol=1e-14)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 7, 3), (12, 0, 0)])
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


@pytest.mark.parametrize("shape", [[None, None], [4, 3, 2], [4]])
def test_wrong_shape(graph, shape):
    x = v1.placeholder(tf.float32, shape, name="activations")
    factor = FullyConnectedKroneckerFactor(((x,),), False, ("",), name="fc/input")
    with pytest.raises(ValueError, match=r"'fc/input': tensor 'activations:0' has shape.*2 axes"):
        factor.instantiate_cov_variables()


def test_half_precision_is_summed_in_single(graph, session):
    factor = make([np.full([5000, 1], 4.0)], dtype=tf.float16)
    assert factor.dtype == tf.float32
    assert session.run(factor.batch_statistic()) == [[16.0]]


@pytest.mark.parametrize("sizes", [(12,), (2, 7, 3)])
def test_diagonal_factors(graph, session, sizes):
    x, g = np.random.RandomState(0).randn(2, 12, 3)
    cuts = np.cumsum(sizes)[:-1]
    towers = tuple(map(tf.constant, np.split(x, cuts)))
    devices = ("",) * len(sizes)
    diagonal = DiagonalKroneckerFactor((towers,), None, True, tf.float64, devices, name="fc/input")
    rows = np.hstack([x, np.ones([12, 1])])
    found = session.run(diagonal.batch_statistic())
    np.testing.assert_allclose(found, (rows**2).mean(0), rtol=1e-12)
    pairs = tuple(zip(towers, map(tf.constant, np.split(g, cuts)), strict=True))
    both = FullyConnectedDiagonalFactor((pairs,), True, devices, name="fc")
    found = session.run(both.batch_statistic())
    np.testing.assert_allclose(found, ((rows**2).T @ g**2 / 12).ravel(), rtol=1e-12)


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


@pytest.mark.parametrize(
    ("cls", "start", "expected"),
    [
        (NaiveFullFactor, np.eye(2), [[0.75, 0.5], [0.5, 1.5]]),
        (NaiveDiagonalFactor, np.ones(2), [0.75, 1.5]),
    ],
)
@pytest.mark.parametrize("batch_size", [2, "tensor"])
def test_known_average_with_an_identity(graph, session, cls, start, expected, batch_size):
    size = tf.constant(2) if batch_size == "tensor" else 2
    factor = cls((((tf.constant([[1.0, 2.0]]),),),), size, ("",), name="w")
    factor.instantiate_cov_variables()
    total, weight, _ = factor.cov_variables
    session.run(v1.global_variables_initializer())
    session.run([v1.assign(total, start), v1.assign(weight, 1.0)])
    session.run(factor.make_covariance_update_op(0.5, 0.5))
    np.testing.assert_allclose(session.run(factor.cov), expected)


def test_parts_are_concatenated_and_sources_summed(graph, session):
    random = np.random.RandomState(0)
    sources = [(random.randn(2, 2), random.randn(3)) for _ in range(2)]
    tensors = tuple((tuple(map(tf.constant, source)),) for source in sources)
    flat = [np.concatenate([g.ravel() for g in source]) for source in sources]
    full = NaiveFullFactor(tensors, 5, ("",), name="w")
    diagonal = NaiveDiagonalFactor(tensors, 5, ("",), name="w")
    assert full.dimension == diagonal.dimension == 7
    expected = sum(np.outer(g, g) for g in flat) / 5
    np.testing.assert_allclose(session.run(full.batch_statistic()), expected, rtol=1e-12)
    found = session.run(diagonal.batch_statistic())
    np.testing.assert_allclose(found, np.diag(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 3), ()), ((3,), (1,)), ((4, 1), (2,)), ((1, 4, 1), (2,)), ((), (1, 2))]
)
def test_sum_over_broadcast_axes(graph, session, shape, axes):
    found = session.run(per_example_sum(tf.constant(X), shape))
    np.testing.assert_allclose(found, X.sum(axes).reshape(6, -1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shapes", [((3,),), ((3,), (4, 3)), ((4, 1), (3,))])
def test_second_moments(graph, session, shapes):
    towers = tuple((tf.constant(X[s]), tf.constant(G[s])) for s in (slice(4), slice(4, 6)))
    sums = {(3,): 1, (4, 3): (), (4, 1): 2}
    parts = [(X * G).sum(sums[shapes[0]]).reshape(6, -1)]
    parts += [G.sum(sums[shape]).reshape(6, -1) for shape in shapes[1:]]
    r = np.hstack(parts)
    full = ScaleAndShiftFullFactor((towers,), shapes, ("", ""), name="ln")
    diagonal = ScaleAndShiftDiagonalFactor((towers,), shapes, ("", ""), name="ln")
    assert full.dimension == diagonal.dimension == r.shape[1]
    found = session.run([full.batch_statistic(), diagonal.batch_statistic()])
    np.testing.assert_allclose(found[0], r.T @ r / 6, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], (r**2).mean(0), rtol=1e-12)
