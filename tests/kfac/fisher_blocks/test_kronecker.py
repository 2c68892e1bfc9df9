"""Blocks of two factors: registered towers, split damping, functions of both, and their errors."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.block_products import product_or_identity
from kfac.fisher_blocks import (
    FullyConnectedDiagonalFB,
    FullyConnectedEKFACFB,
    FullyConnectedKFACBasicFB,
)
from kfac.fisher_blocks.base import layer_params_to_mat2d, mat2d_to_layer_params
from kfac.fisher_blocks.kronecker import KroneckerOperator, KroneckerProduct, split_damping
from kfac.fisher_blocks.kronecker import product_or_identity as shared_product
from kfac.fisher_factors import FullyConnectedKroneckerFactor
from kfac.linalg.damped_functions import INVERSE, ITSELF, CholeskyInverse
from kfac.linalg.linear_operator import DenseOperator

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("cls", "read"),
    [
        (FullyConnectedKFACBasicFB, lambda block: block.input_factor),
        (FullyConnectedKFACBasicFB, lambda block: block.register_inverse()),
        (FullyConnectedDiagonalFB, lambda block: block.factor),
        (FullyConnectedEKFACFB, lambda block: block.eigenbasis_factor),
    ],
)
def test_factors_before_they_are_made(graph, cls, read):
    block = cls(kfac.LayerCollection(), v1.get_variable("fc/w", [2, 2]))
    assert block.made_factors == ()
    with pytest.raises(ValueError, match=r"Layer 'fc/w' has no factors yet"):
        read(block)


def test_tensors_that_do_not_fit_the_parameters(graph):
    weight = v1.get_variable("fc/w", [3, 2])
    two = r"layer 'fc/w'.*need Kronecker factors of 3x3 \(x\) 2x2"
    one = r"layer 'fc/w': its parameters have 6 entries.*for 8"
    for cls, inputs, outputs, message in (
        (FullyConnectedKFACBasicFB, [5, 4], [5, 2], two),
        (FullyConnectedKFACBasicFB, [5, 3], [5, 3], two),
        (FullyConnectedDiagonalFB, [5, 4], [5, 2], one),
    ):
        block = cls(kfac.LayerCollection(), weight)
        block.register_additional_tower(tf.ones(inputs), tf.ones(outputs))
        block.instantiate_factors([[tf.ones(outputs)]], 0.1)
        with pytest.raises(ValueError, match=message):
            block.check_shapes()


def test_sparse_gradients_are_refused(graph):
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    for cls in (FullyConnectedKFACBasicFB, FullyConnectedEKFACFB):
        block = cls(kfac.LayerCollection(), v1.get_variable(f"{cls.__name__}/w", [3, 2]))
        block.register_additional_tower(tf.ones([5, 3]), tf.ones([5, 2]))
        block.instantiate_factors([[tf.ones([5, 2])]], 0.1)
        block.register_inverse()
        for factor in block.factors:
            factor.instantiate_cov_variables()
            factor.instantiate_inv_variables()
        assert not block.multiplies_slices
        with pytest.raises(ValueError, match=rf"sparse gradients of layer '{block.name}'.*in_diag"):
            block.multiply_inverse(sparse)


def test_powers_and_cholesky_factors(laboratory, moment):
    random = np.random.RandomState(0)
    x, g = random.randn(9, 2), random.randn(9, 3)
    lab = laboratory()
    params = lab.variable("fc/w", [2, 3]), lab.variable("fc/b", [3])
    # Nine uses of one row each, so that T is nine.
    uses = x.reshape(9, 1, 2), g.reshape(9, 1, 3)
    lab.collection.register_fully_connected_multi(params, *map(tf.constant, uses))
    block = lab.instantiate([[uses[1]]], 0.3, (-1, -0.5, 0.5), cholesky=True)
    a, g = moment(np.hstack([x, np.ones([9, 1])])), moment(g)
    pi, root = np.sqrt(np.trace(a) / np.trace(g)), np.sqrt(0.3 / 9)
    damped = 9 * np.kron(a + pi * root * np.eye(3), g + root / pi * np.eye(3))
    lab.check_functions(block, damped, (-1, -0.5, 0.5, 1))


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ((8.0, 2.0), (2.0, 0.5)),
        ((1e-30, 1e-30), (1.0, 1.0)),  # It does not underflow.
        ((0.0, 1.0), (1.0, 1.0)),
        ((1.0, 0.0), (1.0, 1.0)),
        ((0.0, 0.0), (1.0, 1.0)),
    ],
)
def test_balance_is_the_root_of_the_ratio_of_means(graph, means, expected, evaluate):
    result = evaluate(split_damping(*map(tf.constant, means), 1.0, dtypes=(tf.float32,) * 2))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "of_bias"),
    [((5, 3), None), ((2, 3, 4, 3), (3,)), ((4, 2, 3), (2, 3))],
    ids=["dense", "convolution", "several axes of outputs"],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_parameters_to_matrix_and_back(graph, session, shape, of_bias, is_known):
    """The bias tells how many axes of the weight are outputs."""
    arrays = [np.random.RandomState(0).randn(*of) for of in (shape, of_bias) if of]
    given = [v1.placeholder(tf.float64, x.shape if is_known else [None] * x.ndim) for x in arrays]
    params = tuple(given) if of_bias else given[0]
    matrix = layer_params_to_mat2d(params)
    back = mat2d_to_layer_params(params, matrix)
    feed = dict(zip(given, arrays, strict=True))
    found, back = session.run([matrix, tf.nest.flatten(back)], feed)
    outputs = int(np.prod(of_bias or shape[-1:]))
    expected = np.vstack([array.reshape(-1, outputs) for array in arrays])
    np.testing.assert_array_equal(found, expected)
    for one, other in zip(back, arrays, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("transpose", [False, True])
def test_product_with_factored_rows(graph, session, transpose):
    left, right, x, d = np.random.RandomState(0).randn(4, 3, 3)
    scale = tf.constant(2.0, tf.float64)
    operator = KroneckerOperator(
        DenseOperator(tf.constant(left)), DenseOperator(tf.constant(right)), scale,
        (tf.float64, tf.float64), transpose,
    )  # fmt: skip
    whole = operator.multiply(tf.constant(x.T @ d))
    found = session.run([whole, operator.multiply_row_product(tf.constant(x), tf.constant(d))])
    expected = 2 * (left.T @ x.T @ d @ right if transpose else left @ x.T @ d @ right.T)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-10)


def test_split_by_traces_and_uses(graph, update_factors, session):
    factors = []
    for name, rows in (("input", 2 * np.eye(2)), ("output", np.eye(2))):
        tensors = ((tf.constant(np.sqrt(2) * rows),),)
        factors.append(FullyConnectedKroneckerFactor(tensors, False, ("",), name=f"fc/{name}"))
    update_factors(*factors)
    found = []
    for config in (
        kfac.CurvatureConfig(),
        kfac.CurvatureConfig(balance_damping=False),
        kfac.CurvatureConfig(damping_power=0.0),
    ):
        product = KroneckerProduct("fc", tuple(factors), 0.36, lambda: 9, config)
        pair = [damping for _, damping in product.pairs()]
        assert [damping.name for damping in pair] == ["fc/input", "fc/output"]
        found.append([damping.value() for damping in pair])
    # tr A / dim A = 4 and tr G / dim G = 1, so that pi = 2; 0.36 / 9 = 0.2².
    expected = [(0.4, 0.1), (0.2, 0.2), (1.2, 0.3)]
    np.testing.assert_allclose(session.run(found), expected, rtol=1e-12)


@contextlib.contextmanager
def control_flow_v1():
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


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
        products = shared_product(inverses, parts, 0.5, eigenvalue, transpose=transpose)
    assert [p.shape.rank for p in products] == [3, 1]
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
    (product,) = shared_product(inverses, (tf.ones([4, 3]),), None, 2.0, transpose=False)
    for inverse, factor in ((np.zeros([4, 4]), 2), (np.eye(4), 1)):
        options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
        found = session.run(product, {inverses[0]: inverse}, options=options, run_metadata=metadata)
        np.testing.assert_array_equal(found, np.full([4, 3], factor))
        nodes = [node for each in metadata.step_stats.dev_stats for node in each.node_stats]
        products = [node for node in nodes if "MatMul(" in node.timeline_label]
        assert len(products) == (0 if factor == 2 else 2)


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
    session, laboratory, made_ops, function, transpose
):
    block, v = dense_block(laboratory, cholesky=True)
    products, types = made_ops(lambda: product_or_identity(block, function, given(v), transpose))
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


class DoubledFB(kfac.fisher_blocks.KroneckerBlock):
    """A user's block: twice the product of a dense layer."""

    settings = ()

    def replications(self):
        return 1

    def _make_product(self, gradients, damping):
        made = FullyConnectedKFACBasicFB(self.factor_maker, self.params)
        made.register_additional_tower(*self.inputs, *self._outputs)
        return made._make_product(gradients, damping)

    def multiply_function(self, function, vector, transpose=False):
        product = super().multiply_function(function, vector, transpose)
        return tuple(2 * part for part in product)


def test_overridden_products_are_used(session, laboratory):
    block, v = dense_block(laboratory, DoubledFB)
    found = session.run(product_or_identity(block, INVERSE, given(v)))
    expected = session.run(block.multiply_inverse(given(v)))
    np.testing.assert_array_equal(found[0], expected[0])


def test_numbers_are_no_part_of_the_function(graph, session):
    inverses, parts = (tf.eye(2), 2 * tf.eye(2)), (tf.ones([2, 2]),)
    scales = 0.5, None, 0.25, 3.0
    products = [shared_product(inverses, parts, s, 4.0, transpose=False)[0] for s in scales]
    kept = [f.signature.name for f in graph.as_graph_def().library.function]
    assert sum("product_or_identity" in name for name in kept) == 2
    for found, factor in zip(session.run(products), (1, 2, 0.5, 6), strict=True):
        np.testing.assert_array_equal(found, np.full([2, 2], factor))
