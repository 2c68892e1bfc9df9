import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg import kronecker

v1 = tf.compat.v1


def evaluate(tensors):
    with v1.Session() as session:
        return session.run(tensors)


def test_damping_is_one_for_equal_mean_traces(graph):
    a = tf.constant(np.diag([1.0, 2, 0, 1]))
    g = tf.ones([2, 2], tf.float64)
    for_a, for_g = evaluate(
        kronecker.kronecker_damping(
            tf.linalg.trace(a), 4, tf.linalg.trace(g), 2, tf.constant(0.25, tf.float64)
        )
    )
    np.testing.assert_allclose([for_a, for_g], [0.5, 0.5], rtol=1e-12)


def test_damping_splits_by_the_ratio_of_mean_traces(graph):
    values = [tf.constant(x, tf.float64) for x in (8.0, 3.0, 0.01)]
    for_a, for_g = evaluate(kronecker.kronecker_damping(values[0], 2, values[1], 3, values[2]))
    np.testing.assert_allclose(for_a * for_g, 0.01, rtol=1e-12)
    np.testing.assert_allclose(for_a / for_g, (8 / 2) / (3 / 3), rtol=1e-12)


@pytest.mark.parametrize(("a_trace", "g_trace"), [(0.0, 3.0), (3.0, 0.0), (0.0, 0.0)])
def test_damping_of_a_zero_trace_is_even(graph, a_trace, g_trace):
    result = evaluate(
        kronecker.kronecker_damping(
            tf.constant(a_trace), 2, tf.constant(g_trace), 3, tf.constant(4.0)
        )
    )
    np.testing.assert_array_equal(result, (2.0, 2.0))


def test_damping_of_tiny_traces_does_not_underflow(graph):
    tiny = tf.constant(1e-30)
    result = evaluate(kronecker.kronecker_damping(tiny, 1, tiny, 1, tf.constant(1.0)))
    np.testing.assert_allclose(result, (1.0, 1.0), rtol=1e-6)


def test_kronecker_product(graph):
    left, right = np.arange(4.0).reshape(2, 2), np.arange(9.0).reshape(3, 3)
    product = evaluate(kronecker.kronecker_product(tf.constant(left), tf.constant(right)))
    np.testing.assert_array_equal(product, np.kron(left, right))


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4, 3)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_parameters_to_matrix_and_back(graph, shape, has_bias):
    weight, bias = np.random.RandomState(0).randn(*shape), np.arange(3.0)
    params = (tf.constant(weight), tf.constant(bias)) if has_bias else tf.constant(weight)
    matrix = kronecker.layer_params_to_mat2d(params)
    found, back = evaluate([matrix, kronecker.mat2d_to_layer_params(params, matrix)])
    expected = weight.reshape(-1, 3)
    np.testing.assert_array_equal(found, np.vstack([expected, bias]) if has_bias else expected)
    np.testing.assert_array_equal(back[0] if has_bias else back, weight)
    if has_bias:
        np.testing.assert_array_equal(back[1], bias)


def test_weight_with_several_axes_of_outputs(graph):
    """Its bias tells how many of its axes are outputs."""
    weight, bias = np.arange(24.0).reshape(4, 2, 3), np.arange(6.0).reshape(2, 3)
    params = tf.constant(weight), tf.constant(bias)
    matrix = kronecker.layer_params_to_mat2d(params)
    found, back = evaluate([matrix, kronecker.mat2d_to_layer_params(params, matrix)])
    np.testing.assert_array_equal(found, np.vstack([weight.reshape(4, 6), bias.reshape(1, 6)]))
    np.testing.assert_array_equal(back[0], weight)
    np.testing.assert_array_equal(back[1], bias)
