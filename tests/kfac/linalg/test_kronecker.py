"""Kronecker products, products of few rows, operators, and packed symmetric matrices."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.linalg import kronecker, low_rank
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.low_rank import cheaper_row_product
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric

v1 = tf.compat.v1
ROWS, INPUTS, OUTPUTS = 2, 12, 10
SHAPES = {"w": [INPUTS, OUTPUTS], "b": [OUTPUTS]}
DIAGONAL = np.array([1.0, -2.0, 3.0])
MATRIX = np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("means", [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_balance_is_one_for_equal_means_and_for_zeros(graph, means, evaluate):
    result = evaluate(kronecker.balance(*map(tf.constant, means)))
    np.testing.assert_array_equal(result, (1.0, 1.0))


def test_balance_is_the_root_of_the_ratio_of_means(graph, evaluate):
    pi, inverse = evaluate(kronecker.balance(*(tf.constant(x, tf.float64) for x in (8.0, 2.0))))
    np.testing.assert_allclose([pi, inverse], [2.0, 0.5], rtol=1e-12)


def test_balance_of_tiny_means_does_not_underflow(graph, evaluate):
    tiny = tf.constant(1e-30)
    np.testing.assert_allclose(evaluate(kronecker.balance(tiny, tiny)), (1.0, 1.0), rtol=1e-6)


def test_kronecker_product(graph, evaluate):
    left, right = np.arange(4.0).reshape(2, 2), np.arange(9.0).reshape(3, 3)
    product = evaluate(kronecker.kronecker_product(tf.constant(left), tf.constant(right)))
    np.testing.assert_array_equal(product, np.kron(left, right))


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4, 3)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_parameters_to_matrix_and_back(graph, shape, has_bias, evaluate):
    weight, bias = np.random.RandomState(0).randn(*shape), np.arange(3.0)
    params = (tf.constant(weight), tf.constant(bias)) if has_bias else tf.constant(weight)
    matrix = kronecker.layer_params_to_mat2d(params)
    found, back = evaluate([matrix, kronecker.mat2d_to_layer_params(params, matrix)])
    expected = weight.reshape(-1, 3)
    np.testing.assert_array_equal(found, np.vstack([expected, bias]) if has_bias else expected)
    np.testing.assert_array_equal(back[0] if has_bias else back, weight)
    if has_bias:
        np.testing.assert_array_equal(back[1], bias)


def test_weight_with_several_axes_of_outputs(graph, evaluate):
    """Its bias tells how many of its axes are outputs."""
    weight, bias = np.arange(24.0).reshape(4, 2, 3), np.arange(6.0).reshape(2, 3)
    params = tf.constant(weight), tf.constant(bias)
    matrix = kronecker.layer_params_to_mat2d(params)
    found, back = evaluate([matrix, kronecker.mat2d_to_layer_params(params, matrix)])
    np.testing.assert_array_equal(found, np.vstack([weight.reshape(4, 6), bias.reshape(1, 6)]))
    np.testing.assert_array_equal(back[0], weight)
    np.testing.assert_array_equal(back[1], bias)


def dense_layer(rows=ROWS, bias_add=False):
    """The inputs of a layer, and its gradients of (weight, bias)."""
    x = v1.placeholder_with_default(tf.ones([rows or 3, INPUTS]), [rows, INPUTS])
    weight, bias = (v1.get_variable(name, shape) for name, shape in SHAPES.items())
    product = tf.matmul(x, weight)
    outputs = tf.nn.bias_add(product, bias) if bias_add else product + bias
    return x, tuple(v1.gradients(tf.reduce_sum(tf.square(outputs)), [weight, bias]))


@pytest.mark.parametrize("bias_add", [True, False])
def test_is_the_gradient(graph, session, bias_add):
    _, gradient = dense_layer(bias_add=bias_add)
    found = cheaper_row_product(gradient)
    session.run(v1.global_variables_initializer())
    (weight, bias), (x, d) = session.run([gradient, found])
    assert x.shape == (ROWS, INPUTS + 1)
    np.testing.assert_allclose(x.T @ d, np.vstack([weight, bias]), rtol=1e-6)


def test_gradient_without_bias_behind_identities(graph, session):
    x, (weight, _) = dense_layer()
    found = cheaper_row_product(tf.ensure_shape(tf.identity(weight), SHAPES["w"]))
    session.run(v1.global_variables_initializer())
    np.testing.assert_array_equal(*session.run([found.x, x]))


def test_control_dependencies_of_the_gradient_are_kept(graph, session):
    _, (weight, _) = dense_layer()
    with v1.control_dependencies([tf.debugging.assert_equal(tf.shape(weight)[0], 1)]):
        checked = tf.identity(weight)
    found = cheaper_row_product(checked)
    session.run(v1.global_variables_initializer())
    for part in found:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(part)


@pytest.mark.parametrize("rows", [None, INPUTS])
def test_many_rows_or_an_unknown_number(graph, rows):
    _, gradient = dense_layer(rows)
    assert cheaper_row_product(gradient) is None


def test_cost_at_the_limit(graph):
    """For 8 x 8 it is at r · 3 · 64 = 2 · 512 multiplications, so at 5.3 rows."""
    for rows, is_cheaper in ((5, True), (6, False)):
        x, d = tf.zeros([rows, 8]), tf.zeros([rows, 8])
        found = cheaper_row_product(tf.matmul(x, d, transpose_a=True))
        assert (found is not None) == is_cheaper


@pytest.mark.parametrize(
    "other",
    [
        lambda weight, bias: (2 * weight, bias),
        lambda weight, bias: (weight, 2 * bias),
        lambda weight, bias: (tf.add_n([weight, weight]), bias),
        lambda weight, bias: (weight, tf.reduce_sum(weight, axis=0)),
        lambda weight, bias: tf.matmul(weight, tf.zeros([OUTPUTS, 1])),
    ],
)
def test_other_gradients_are_not_row_products(graph, other):
    _, gradient = dense_layer()
    assert cheaper_row_product(other(*gradient)) is None


@pytest.mark.parametrize("momentum_type", ["regular", "adam"])
def test_steps_are_the_same(monkeypatch, momentum_type):
    """As without it."""
    weights = []
    for limit in (cheaper_row_product, lambda gradient: None):
        monkeypatch.setattr(low_rank, "cheaper_row_product", limit)
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(0)
            random = np.random.RandomState(0)
            x = tf.constant(random.randn(ROWS, INPUTS))
            y = tf.constant(random.randn(ROWS, OUTPUTS))
            params = tuple(
                v1.get_variable(name, initializer=tf.constant(random.randn(*shape)))
                for name, shape in SHAPES.items()
            )
            outputs = tf.matmul(x, params[0]) + params[1]
            layers = kfac.LayerCollection()
            layers.register_fully_connected(params, x, outputs)
            layers.register_squared_error_loss(outputs, targets=y)
            optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=0.1,
                damping=0.1,
                layer_collection=layers,
                momentum_type=momentum_type,
                norm_constraint=0.1,
                estimation_mode="empirical",
            )
            train = optimizer.minimize(tf.reduce_mean(tf.reduce_sum((outputs - y) ** 2, axis=1)))
            session.run(v1.global_variables_initializer())
            for _ in range(5):
                session.run(train)
            weights.append(session.run(params))
    for with_it, without in zip(*weights, strict=True):
        np.testing.assert_allclose(with_it, without, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_products_of_operators(graph, session, kind, transpose):
    operator, matrix = {
        "dense": (DenseOperator(tf.constant(MATRIX)), MATRIX),
        "diagonal": (DiagonalOperator(tf.constant(DIAGONAL)), np.diag(DIAGONAL)),
    }[kind]
    x = np.random.RandomState(0).randn(3, 4)
    used = matrix.T if transpose else matrix
    found = session.run([operator.left(x, transpose), operator.right(x.T, transpose)])
    np.testing.assert_allclose(found[0], used @ x)
    np.testing.assert_allclose(found[1], x.T @ used)
    np.testing.assert_array_equal(session.run(operator.to_dense()), matrix)


def test_part_of_a_diagonal(graph, session):
    part = DiagonalOperator(tf.constant(DIAGONAL)).take(tf.constant([2, 2, 0]))
    np.testing.assert_array_equal(session.run(part.to_dense()), np.diag([3.0, 3.0, 1.0]))


def test_operator_is_abstract():
    with pytest.raises(TypeError, match=r"abstract"):
        LinearOperator()


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_unpacking_gives_the_packed_matrix(graph, session, size):
    matrix = np.random.RandomState(0).randn(size, size)
    matrix += matrix.T
    packed = pack_symmetric(tf.constant(matrix))
    even = size + size % 2
    assert packed.shape.num_elements() == even * (even + 1) // 2
    np.testing.assert_array_equal(session.run(unpack_symmetric(packed, size)), matrix)


def test_sum_of_packed_is_packed_sum(graph, session):
    matrices = [np.full([3, 3], 1.0), np.diag([1.0, 2.0, 3.0])]
    total = tf.add_n([pack_symmetric(tf.constant(m)) for m in matrices])
    np.testing.assert_array_equal(session.run(unpack_symmetric(total, 3)), sum(matrices))


@pytest.mark.parametrize("has_bias", [False, True])
def test_parameters_of_unknown_shape_as_a_matrix(graph, session, has_bias):
    arrays = np.arange(12.0).reshape(2, 2, 3), np.arange(3.0)
    given = [v1.placeholder_with_default(x, [None] * x.ndim) for x in arrays]
    params = tuple(given) if has_bias else given[0]
    matrix = kronecker.layer_params_to_mat2d(params)
    found, back = session.run([matrix, kronecker.mat2d_to_layer_params(params, matrix)])
    rows = arrays[0].reshape(4, 3)
    np.testing.assert_array_equal(found, np.vstack([rows, arrays[1]]) if has_bias else rows)
    for array, other in zip(arrays, back if has_bias else [back], strict=False):
        np.testing.assert_array_equal(array, other)
