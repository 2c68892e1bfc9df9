import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from kfac import linalg

v1 = tf.compat.v1


class Inverter:
    """`damped_inverse` behind placeholders, so that many matrices need one graph only."""

    def __init__(self, dtype):
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._matrix = v1.placeholder(dtype, [None, None])
            self._damping = v1.placeholder(dtype, [])
            self._previous = v1.placeholder(dtype, [None, None])
            self._result = linalg.damped_inverse(self._matrix, self._damping, self._previous)
        self._session = v1.Session(graph=self._graph)

    def __call__(self, matrix, damping, previous=None):
        previous = np.zeros_like(matrix) if previous is None else previous
        feed = {self._matrix: matrix, self._damping: damping, self._previous: previous}
        return self._session.run(self._result, feed)


@pytest.fixture(scope="module")
def inverters():
    return {dtype: Inverter(dtype) for dtype in ("float32", "float64")}


def evaluate(tensors):
    with v1.Session() as session:
        return session.run(tensors)


def test_damping_is_one_for_equal_mean_traces(graph):
    a = tf.constant(np.diag([1.0, 2, 0, 1]))
    g = tf.ones([2, 2], tf.float64)
    for_a, for_g = evaluate(
        linalg.kronecker_damping(
            tf.linalg.trace(a), 4, tf.linalg.trace(g), 2, tf.constant(0.25, tf.float64)
        )
    )
    np.testing.assert_allclose([for_a, for_g], [0.5, 0.5], rtol=1e-12)


def test_damping_splits_by_the_ratio_of_mean_traces(graph):
    values = [tf.constant(x, tf.float64) for x in (8.0, 3.0, 0.01)]
    for_a, for_g = evaluate(linalg.kronecker_damping(values[0], 2, values[1], 3, values[2]))
    np.testing.assert_allclose(for_a * for_g, 0.01, rtol=1e-12)
    np.testing.assert_allclose(for_a / for_g, (8 / 2) / (3 / 3), rtol=1e-12)


@pytest.mark.parametrize(("a_trace", "g_trace"), [(0.0, 3.0), (3.0, 0.0), (0.0, 0.0)])
def test_damping_of_a_zero_trace_is_even(graph, a_trace, g_trace):
    result = evaluate(
        linalg.kronecker_damping(tf.constant(a_trace), 2, tf.constant(g_trace), 3, tf.constant(4.0))
    )
    np.testing.assert_array_equal(result, (2.0, 2.0))


def test_damping_of_tiny_traces_does_not_underflow(graph):
    tiny = tf.constant(1e-30)
    result = evaluate(linalg.kronecker_damping(tiny, 1, tiny, 1, tf.constant(1.0)))
    np.testing.assert_allclose(result, (1.0, 1.0), rtol=1e-6)


def test_homogeneous_coordinate_and_outer_product(graph):
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    product = evaluate(linalg.outer_product(linalg.append_homogeneous(tf.constant(rows))))
    np.testing.assert_array_equal(product, [[10, 14, 4], [14, 20, 6], [4, 6, 2]])


def test_kronecker_product(graph):
    left, right = np.arange(4.0).reshape(2, 2), np.arange(9.0).reshape(3, 3)
    product = evaluate(linalg.kronecker_product(tf.constant(left), tf.constant(right)))
    np.testing.assert_array_equal(product, np.kron(left, right))


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4, 3)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_parameters_to_matrix_and_back(graph, shape, has_bias):
    weight, bias = np.random.RandomState(0).randn(*shape), np.arange(3.0)
    params = (tf.constant(weight), tf.constant(bias)) if has_bias else tf.constant(weight)
    matrix = linalg.layer_params_to_mat2d(params)
    found, back = evaluate([matrix, linalg.mat2d_to_layer_params(params, matrix)])
    expected = weight.reshape(-1, 3)
    np.testing.assert_array_equal(found, np.vstack([expected, bias]) if has_bias else expected)
    np.testing.assert_array_equal(back[0] if has_bias else back, weight)
    if has_bias:
        np.testing.assert_array_equal(back[1], bias)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(tf.float16, tf.float32), (tf.bfloat16, tf.float32)]
    + [(dtype, dtype) for dtype in (tf.float32, tf.float64)],
)
def test_statistics_dtype(given, expected):
    assert linalg.statistics_dtype(given) == expected


def test_python_numbers_keep_their_digits(graph):
    assert evaluate(linalg.as_scalar(0.1, tf.float64)) == 0.1


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 32),
    rows=st.integers(1, 40),
    log_damping=st.floats(-4, 1),
    seed=st.integers(0, 10_000),
)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-10)])
def test_inverse_times_matrix_is_identity(inverters, dtype, bound, size, rows, log_damping, seed):
    x = np.random.RandomState(seed).randn(rows, size)
    matrix, damping = (x.T @ x / rows).astype(dtype), np.asarray(10**log_damping, dtype)
    result = inverters[dtype](matrix, damping)
    damped = matrix.astype("f8") + float(damping) * np.eye(size)
    condition = np.linalg.cond(damped)
    residual = np.abs(result.inverse.astype("f8") @ damped - np.eye(size)).max()
    assert residual <= bound * max(1.0, condition / 10)
    np.testing.assert_array_equal(result.inverse, result.inverse.T)
    assert tuple(result.rare_paths) == (0, 0, 0)


def test_zero_matrix_gives_the_inverse_of_the_damping(inverters):
    result = inverters["float32"](np.zeros([3, 3], "f"), 0.25)
    np.testing.assert_allclose(result.inverse, 4 * np.eye(3), rtol=1e-6)
    assert tuple(result.rare_paths) == (0, 0, 0)


def test_rank_one_matrix(inverters):
    matrix = np.outer([1.0, 2, 3], [1.0, 2, 3]).astype("f")
    result = inverters["float32"](matrix, 0.1)
    expected = np.linalg.inv(matrix + 0.1 * np.eye(3))
    np.testing.assert_allclose(result.inverse, expected, atol=1e-3)
    assert tuple(result.rare_paths) == (0, 0, 0)


def test_condition_1e12_is_retried_in_double_precision(inverters):
    random = np.random.RandomState(0)
    basis = np.linalg.qr(random.randn(20, 20))[0]
    matrix = (basis * np.logspace(0, -12, 20)) @ basis.T
    damping = 1e-9
    result = inverters["float32"](matrix.astype("f"), damping)
    assert tuple(result.rare_paths) == (1, 0, 0)
    assert np.isfinite(result.inverse).all()
    # The damping may have been raised, never lowered: no eigenvalue exceeds 1 / damping.
    assert np.linalg.eigvalsh(result.inverse.astype("f8")).max() <= 1.01 / damping


def test_slightly_indefinite_matrix_gets_more_damping(inverters):
    matrix = np.diag([1.0, -0.05]).astype("f")
    result = inverters["float32"](matrix, 0.01)
    np.testing.assert_allclose(result.inverse, np.diag([1 / 1.1, 1 / 0.05]), rtol=1e-5)
    assert tuple(result.rare_paths) == (1, 0, 0)


def test_indefinite_matrix_is_clipped(inverters):
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]], "f")  # eigenvalues 3 and -1
    result = inverters["float32"](matrix, 1e-4)
    u, v = np.array([1.0, 1]) / 2**0.5, np.array([1.0, -1]) / 2**0.5
    expected = np.outer(u, u) / 3.0001 + np.outer(v, v) / 1e-4
    np.testing.assert_allclose(result.inverse, expected, rtol=1e-5)
    assert tuple(result.rare_paths) == (1, 1, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_matrix_keeps_the_previous_inverse(inverters, bad):
    previous = np.array([[2.0, 1.0], [1.0, 3.0]], "f")
    result = inverters["float32"](np.array([[1.0, bad], [bad, 1.0]], "f"), 0.1, previous)
    np.testing.assert_array_equal(result.inverse, previous)
    assert tuple(result.rare_paths) == (0, 0, 1)


@pytest.mark.parametrize("damping", [np.nan, np.inf, 0.0, -1.0])
def test_unusable_damping_keeps_the_previous_inverse(inverters, damping):
    previous = np.full([2, 2], 7.0, "f")
    result = inverters["float32"](np.eye(2, dtype="f"), damping, previous)
    np.testing.assert_array_equal(result.inverse, previous)
    assert tuple(result.rare_paths) == (0, 0, 1)


def test_overflow_keeps_the_previous_inverse(inverters):
    previous = np.full([2, 2], 7.0)
    result = inverters["float64"](np.full([2, 2], 1.5e308), 0.1, previous)
    np.testing.assert_array_equal(result.inverse, previous)
    assert tuple(result.rare_paths) == (0, 0, 1)


def test_ordinary_inverse_decomposes_once(graph, session):
    result = linalg.damped_inverse(tf.eye(9), tf.constant(1.0), tf.zeros([9, 9]))
    kinds = ("Cholesky", "SelfAdjointEigV2")
    decompositions = [op.outputs[0] for op in graph.get_operations() if op.type in kinds]
    sizes = [value.size for value in session.run([decompositions, result])[0]]
    assert sorted(sizes) == [1, 4, 81]


def test_shapes_are_static(graph):
    result = linalg.damped_inverse(tf.eye(9), tf.constant(1.0), tf.zeros([9, 9]))
    assert result.inverse.shape == [9, 9]
    assert result.rare_paths.shape == [3]
