"""Products with a block, or with damped identity matrices before its inverse, in one operation."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.block_products import product_or_identity
from kfac.fisher_blocks import FullyConnectedKFACBasicFB
from kfac.fisher_blocks.shared_products import diagonal_product, kronecker_or_identity
from kfac.linalg.damped_functions import INVERSE, ITSELF, CholeskyInverse

v1 = tf.compat.v1


@contextlib.contextmanager
def control_flow_v1():
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


def made_ops(graph, make):
    """Returns what a function makes, and the types of its operations but for numbers."""
    before = set(graph.get_operations())
    result = make()
    new = [op for op in graph.get_operations() if op not in before]
    types = (op.type for op in new if "kfac/constant/" not in op.name)
    return result, sorted(t for t in types if t != "Const")


@pytest.mark.parametrize(
    ("version", "transpose", "dtype"),
    [(control_flow_v1, True, "float16"), (contextlib.nullcontext, False, "float64")],
)
def test_kronecker_product(graph, session, version, transpose, dtype):
    random = np.random.RandomState(0)
    left, right = random.randn(5, 5), random.randn(3, 3)
    weight, bias = random.randn(2, 2, 3).astype(dtype), random.randn(3).astype(dtype)
    inverses = v1.placeholder(tf.float64, [5, 5]), v1.placeholder(tf.float64, [3, 3])
    parts = tf.constant(weight), tf.constant(bias)
    # One scalar is a number, and the other one is not.
    eigenvalue = v1.placeholder(tf.float64, [])
    with version():
        products = kronecker_or_identity(inverses, parts, 0.5, eigenvalue, transpose)
    assert [p.shape for p in products] == [[2, 2, 3], [3]]
    v = np.concatenate([weight.reshape(4, 3), bias[None]]).astype(float)
    product = 0.5 * (left.T @ v @ right if transpose else left @ v @ right.T)
    rtol = 1e-10 if dtype == "float64" else 1e-2
    for a, g in ((0, 0), (1, 0), (0, 1), (1, 1)):
        feed = {**dict(zip(inverses, (a * left, g * right), strict=True)), eigenvalue: 4.0}
        found = session.run(products, feed)
        assert all(part.dtype == dtype for part in found)
        whole = np.concatenate([found[0].reshape(4, 3), found[1][None]])
        np.testing.assert_allclose(whole, product if a * g else 4 * v, rtol=rtol)


def test_products_that_are_not_wanted_are_not_computed(graph, session):
    inverses = v1.placeholder(tf.float32, [4, 4]), tf.eye(3)
    (product,) = kronecker_or_identity(inverses, [tf.ones([4, 3])], 1, 2.0, False)
    for inverse, factor in ((np.zeros([4, 4]), 2), (np.eye(4), 1)):
        options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
        found = session.run(product, {inverses[0]: inverse}, options=options, run_metadata=metadata)
        np.testing.assert_array_equal(found, np.full([4, 3], factor))
        nodes = [node for each in metadata.step_stats.dev_stats for node in each.node_stats]
        products = [node for node in nodes if "MatMul(" in node.timeline_label]
        assert len(products) == (0 if factor == 2 else 2)


@pytest.mark.parametrize(
    ("eigenvalue", "degree", "adapts"), [(None, -1, True), (4.0, -0.5, False), (4.0, -1, True)]
)
def test_diagonal_product(graph, session, eigenvalue, degree, adapts):
    random = np.random.RandomState(0)
    first, second = random.randn(2, 3), random.randn(4).astype("float32")
    total = random.rand(10).astype("float32")
    weight = v1.placeholder(tf.float32, [])
    damping = tf.identity(tf.constant(0.3)) if adapts else 0.3
    parts = [tf.constant(first), tf.constant(second)]
    average = tf.constant(total), weight
    products = diagonal_product(average, parts, damping, eigenvalue, degree, tf.float64)
    assert [p.shape for p in products] == [[2, 3], [4]]
    assert [p.dtype for p in products] == [tf.float64, tf.float32]
    known = np.split((total / 0.5 + 0.3) ** degree, [6])
    for found, part, power in zip(
        session.run(products, {weight: 0.5}), (first, second), known, strict=True
    ):
        np.testing.assert_allclose(found, power.reshape(part.shape) * part, rtol=1e-5)
    for found, part in zip(session.run(products, {weight: 0.0}), (first, second), strict=True):
        np.testing.assert_array_equal(found, (eigenvalue or 0.0) * part)


def test_diagonal_product_is_zero_where_the_average_is_not_finite(graph, session):
    average = tf.constant([1.0, np.nan]), tf.constant(1.0)
    (product,) = diagonal_product(average, [tf.ones([2])], 0.1, 2.0, -1, tf.float32)
    np.testing.assert_array_equal(session.run(product), [0, 0])


def dense_block(laboratory, cls=FullyConnectedKFACBasicFB, **kwargs):
    lab = laboratory()
    params = lab.variable("w", [4, 3]), lab.variable("b", [3])
    random = np.random.RandomState(0)
    x, g = random.randn(7, 4), random.randn(7, 3)
    block = cls(lab.collection, params)
    lab.collection.register_block(block, tf.constant(x), tf.constant(g))
    return lab.instantiate([[g]], **kwargs), random.randn(15)


def given(v):
    return tf.constant(v[:12].reshape(4, 3)), tf.constant(v[12:])


@pytest.mark.parametrize(
    ("function", "transpose"),
    [(INVERSE, False), pytest.param(CholeskyInverse(), True, marks=pytest.mark.broad)],
)
def test_blocks_with_kept_functions_take_one_operation(
    graph, session, laboratory, function, transpose
):
    block, v = dense_block(laboratory, cholesky=True)
    products, types = made_ops(
        graph, lambda: product_or_identity(block, function, given(v), transpose)
    )
    assert types == ["PartitionedCall", "ReadVariableOp", "ReadVariableOp"]
    expected = block.multiply_function(function, given(v), transpose)
    found, expected = session.run([products, expected])
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, other)
    # As long as one of both is zero, the block counts as made of identity matrices.
    slot = next(s for s in block.output_factor.inverses if s.function == function)
    session.run(slot.matrix.assign(np.zeros([3, 3])))
    factor = block.identity_eigenvalue() ** function.degree
    np.testing.assert_allclose(session.run(products[1]), factor * v[12:])


def test_functions_and_vectors_that_are_multiplied_as_before(session, laboratory):
    """Functions that are computed when used, and gradients that are products of rows."""
    block, v = dense_block(laboratory)
    assert block.product_or_identity(ITSELF, given(v)) is None
    found = session.run(product_or_identity(block, ITSELF, given(v)))
    expected = session.run(block.multiply(given(v)))
    np.testing.assert_array_equal(found[0], expected[0])
    x, d = tf.ones([1, 4], tf.float64), tf.ones([1, 3], tf.float64)
    gradient = tf.matmul(x, d, transpose_a=True), tf.reduce_sum(d, axis=0)
    assert block.product_or_identity(INVERSE, gradient) is None


def test_diagonal_blocks_take_one_operation(graph, session, laboratory):
    lab = laboratory()
    x, g = np.random.RandomState(0).randn(2, 7, 3)
    params = lab.variable("scale", [3]), lab.variable("shift", [3])
    lab.collection.register_scale_and_shift(params, tf.constant(x), tf.constant(g), "diagonal")
    block = lab.instantiate([[g]])
    v = np.random.RandomState(1).randn(2, 3)
    vector = tf.constant(v[0]), tf.constant(v[1])
    products, types = made_ops(graph, lambda: product_or_identity(block, INVERSE, vector))
    assert types == ["PartitionedCall", "ReadVariableOp", "ReadVariableOp"]
    average = np.mean(np.hstack([x * g, g]) ** 2, axis=0)
    np.testing.assert_allclose(np.ravel(session.run(products)), v.ravel() / (average + 0.3))
    # Before the first statistic the average counts as ones.
    session.run([v1.assign(each, each * 0) for each in block.factor.cov_variables[:2]])
    np.testing.assert_allclose(session.run(products), v / 1.3, rtol=1e-6)


class DoubledFB(kfac.fisher_blocks.KroneckerBlock):
    """A user's block: twice the product of a dense layer."""

    settings = ()

    def replications(self):
        return 1

    def _make_product(self, gradients, damping):
        return FullyConnectedKFACBasicFB._make_product(self, gradients, damping)

    _form = kfac.fisher_blocks.dense.DenseForm()

    def multiply_function(self, function, vector, transpose=False):
        product = super().multiply_function(function, vector, transpose)
        return tuple(2 * part for part in product)


def test_overridden_products_are_used(session, laboratory):
    block, v = dense_block(laboratory, DoubledFB)
    found = session.run(product_or_identity(block, INVERSE, given(v)))
    expected = session.run(block.multiply_inverse(given(v)))
    np.testing.assert_array_equal(found[0], expected[0])


def test_numbers_are_no_part_of_the_function(graph, session):
    inverses, parts = (tf.eye(2), 2 * tf.eye(2)), [tf.ones([2, 2])]
    # A dtype equals its number, which is 1 for float32.
    scales = 0.5, 1, 0.25, tf.constant(3.0)
    products = [kronecker_or_identity(inverses, parts, s, 4.0, False)[0] for s in scales]
    kept = [f.signature.name for f in graph.as_graph_def().library.function]
    assert sum("with_numbers" in name for name in kept) == 2
    for found, factor in zip(session.run(products), (1, 2, 0.5, 6), strict=True):
        np.testing.assert_array_equal(found, np.full([2, 2], factor))
