"""Products of few rows, and packed symmetric matrices."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.linear_operator import cheaper_row_product
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric

v1 = tf.compat.v1
ROWS, INPUTS, OUTPUTS = 2, 12, 10
SHAPES = {"w": [INPUTS, OUTPUTS], "b": [OUTPUTS]}


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
    alone = cheaper_row_product(tf.ensure_shape(tf.identity(gradient[0]), SHAPES["w"]))
    np.testing.assert_array_equal(session.run(alone.x), x[:, :INPUTS])


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


@pytest.mark.parametrize("size", [1, 6, 7])
def test_unpacking_gives_the_packed_matrix_and_sum(graph, session, size):
    matrix = np.random.RandomState(0).randn(size, size)
    matrix += matrix.T
    packed = pack_symmetric(tf.constant(matrix))
    even = size + size % 2
    assert packed.shape.num_elements() == even * (even + 1) // 2
    np.testing.assert_array_equal(session.run(unpack_symmetric(packed, size)), matrix)
    total = session.run(
        unpack_symmetric(packed + pack_symmetric(tf.eye(size, dtype=tf.float64)), size)
    )
    np.testing.assert_array_equal(total, matrix + np.eye(size))
