"""Damping that is split between two factors, and products with functions of them."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks.kronecker_product import KroneckerOperator, SplitDamping
from kfac.fisher_factors import FullyConnectedKroneckerFactor
from kfac.fisher_factors.base import updated_inverses
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator

v1 = tf.compat.v1


def moment(rows):
    return rows.T @ rows / len(rows)


@pytest.fixture
def trained(laboratory):
    """A dense layer with all that can be registered, its damped factors in NumPy."""
    random = np.random.RandomState(0)
    x, g = random.randn(9, 2), random.randn(9, 3)
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3]), lab.variable("fc/b", [3])
    tensors = tf.constant(x[np.newaxis]), tf.constant(g[np.newaxis])
    # The same rows as one use of nine, so that c is one, and as nine uses, so that it is nine.
    lab.collection.register_fully_connected_multi(
        params, tf.reshape(tensors[0], [9, 1, 2]), tf.reshape(tensors[1], [9, 1, 3])
    )
    block = lab.instantiate([[g.reshape(9, 1, 3)]], 0.3, (-1, -0.5, 0.5), cholesky=True)
    a, g = moment(np.hstack([x, np.ones([9, 1])])), moment(g)
    pi = np.sqrt((np.trace(a) / 3) / (np.trace(g) / 3))
    root = np.sqrt(0.3 / 9)
    return lab, block, a + pi * root * np.eye(3), g + root / pi * np.eye(3)


def symmetric_power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def test_powers_and_cholesky_factors(trained):
    lab, block, a, g = trained
    v = np.random.RandomState(1).randn(9)
    for exponent in (-1, -0.5, 0.5, 1):
        expected = symmetric_power(9 * np.kron(a, g), exponent) @ v
        found = lab.product(block.multiply_matpower, v, exponent)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    root = 3 * np.kron(np.linalg.cholesky(a), np.linalg.cholesky(g))
    np.testing.assert_allclose(root @ root.T, 9 * np.kron(a, g), rtol=1e-10, atol=1e-12)
    for multiply, factor in (
        (block.multiply_cholesky, root),
        (block.multiply_cholesky_inverse, np.linalg.inv(root)),
    ):
        np.testing.assert_allclose(lab.product(multiply, v), factor @ v, rtol=1e-9)
        found = lab.product(multiply, v, transpose=True)
        np.testing.assert_allclose(found, factor.T @ v, rtol=1e-9)


def test_powers_share_one_eigendecomposition(trained, graph):
    _, block, _, _ = trained
    before = set(graph.get_operations())
    updated_inverses([block.input_factor], [""])
    new = [op for op in graph.get_operations() if op not in before]
    eigen = [op for op in new if op.type == "SelfAdjointEigV2"]
    assert len(eigen) == 1


@pytest.mark.parametrize("transpose", [False, True])
def test_product_with_factored_rows(graph, session, transpose):
    left, right, x, d = np.random.RandomState(0).randn(4, 3, 3)
    scale = tf.constant(2.0, tf.float64)
    operator = KroneckerOperator(
        DenseOperator(tf.constant(left)), DenseOperator(tf.constant(right)), scale, tf.float64,
        transpose,
    )  # fmt: skip
    whole = operator.multiply(tf.constant(x.T @ d))
    found = session.run([whole, operator.multiply_row_product(tf.constant(x), tf.constant(d))])
    expected = 2 * (left.T @ x.T @ d @ right if transpose else left @ x.T @ d @ right.T)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-10)


def test_product_with_rows_needs_a_diagonal(graph, session):
    values, right = np.random.RandomState(0).randn(2, 2, 2)
    rows = tf.IndexedSlices(tf.constant(values), tf.constant([2, 0]), tf.constant([3, 2]))
    scale, right = tf.constant(2.0, tf.float64), DenseOperator(tf.constant(right))
    diagonal = DiagonalOperator(tf.constant([1.0, 2, 3], tf.float64))
    found = KroneckerOperator(diagonal, right, scale, tf.float64, False).multiply_slices(rows)
    whole = KroneckerOperator(diagonal, right, scale, tf.float64, False).multiply(
        tf.constant(np.stack([values[1], np.zeros(2), values[0]]))
    )
    found, indices, whole = session.run([found.values, found.indices, whole])
    np.testing.assert_allclose(found, whole[indices], rtol=1e-12)
    assert KroneckerOperator(right, right, scale, tf.float64, False).multiply_slices(rows) is None


def test_damping_without_balance(laboratory):
    random = np.random.RandomState(0)
    x, g = random.randn(6, 2), random.randn(6, 3)
    lab = laboratory(kfac.CurvatureConfig(balance_damping=False, damping_power=0.0))
    lab.collection.register_fully_connected_multi(
        lab.variable("fc/w", [2, 3]), [tf.constant(x)] * 2, [tf.constant(g)] * 2
    )
    block = lab.instantiate([[g, g]], damping=0.09)
    v = random.randn(6)
    damped = 2 * np.kron(moment(x) + 0.3 * np.eye(2), moment(g) + 0.3 * np.eye(3))
    expected = np.linalg.solve(damped, v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # tr A / dim A = 4 and tr G / dim G = 1, so that pi = 2; 0.36 / 9 = 0.2².
        (kfac.CurvatureConfig(), (0.4, 0.1)),
        (kfac.CurvatureConfig(balance_damping=False), (0.2, 0.2)),
        (kfac.CurvatureConfig(damping_power=0.0), (1.2, 0.3)),
    ],
)
def test_split_by_traces_and_uses(graph, session, config, expected):
    factors = []
    for name, rows in (("input", 2 * np.eye(2)), ("output", np.eye(2))):
        tensors = ((tf.constant(np.sqrt(2) * rows),),)
        factors.append(FullyConnectedKroneckerFactor(tensors, False, ("",), name=f"fc/{name}"))
        factors[-1].instantiate_cov_variables()
    split = SplitDamping("fc", tuple(factors), 0.36, lambda: 9, config)
    assert (split.of_input.name, split.of_output.name) == ("fc/input", "fc/output")
    averages = [factor.make_covariance_update_op(0.9) for factor in factors]
    found = split.of_input.value(), split.of_output.value()
    session.run(v1.global_variables_initializer())
    session.run(averages)
    np.testing.assert_allclose(session.run(found), expected, rtol=1e-12)
