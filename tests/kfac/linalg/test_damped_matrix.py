import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg import damped_matrix, eigendecomposition
from kfac.linalg.damped_matrix import INVERSES, LARGEST_BLOCK, damped_function

v1 = tf.compat.v1


class Inverter:
    """All functions behind placeholders, so that many matrices need one graph only."""

    def __init__(self, dtype):
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._matrix = v1.placeholder(dtype, [None, None])
            self._damping = v1.placeholder(dtype, [])
            self._previous = v1.placeholder(dtype, [None, None])
            args = self._matrix, self._damping, self._previous
            eigen = eigendecomposition.eigendecompose(self._matrix)
            self._results = {
                "inverse": damped_function(*args, attempts=INVERSES["cholesky"]),
                "lu": damped_function(*args, attempts=INVERSES["lu"]),
                "newton_schulz": damped_function(*args, attempts=INVERSES["newton_schulz"]),
                "eigh": eigendecomposition.damped_power(eigen, args[1], -1.0, args[2]),
                "cholesky": damped_function(*args, attempts=damped_matrix.CHOLESKY),
                "cholesky_inverse": damped_function(*args, attempts=damped_matrix.CHOLESKY_INVERSE),
                "power": eigendecomposition.damped_power(eigen, args[1], -0.5, args[2]),
            }
        self._session = v1.Session(graph=self._graph)

    def __call__(self, matrix, damping, previous=None, function="inverse"):
        previous = np.zeros_like(matrix) if previous is None else previous
        feed = {self._matrix: matrix, self._damping: damping, self._previous: previous}
        return self._session.run(self._results[function], feed)


@pytest.fixture(scope="module")
def inverters():
    return {dtype: Inverter(dtype) for dtype in ("float32", "float64")}


METHODS = ("inverse", "lu", "newton_schulz", "eigh")


def conditioned(size, condition):
    basis = np.linalg.qr(np.random.RandomState(0).randn(size, size))[0]
    return (basis * np.logspace(0, -np.log10(condition), size)) @ basis.T


DIFFICULT = {
    "zero": (np.zeros([4, 4]), (0, 0, 0)),
    "rank one": (np.outer([1.0, 2, 3, 4], [1.0, 2, 3, 4]), (0, 0, 0)),
    "condition 1e12": (conditioned(20, 1e12), (1, 0, 0)),
    "slightly indefinite": (np.diag([1.0, -1.5e-6]), (1, 0, 0)),
    "two negative eigenvalues": (np.diag([1.0, -1.0, 1.0, -1.0]), (1, 1, 0)),
    "singular when damped": (np.diag([1.0, -1.0]) - 1e-6 * np.eye(2), (1, 1, 0)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_matrices_with_all_methods(inverters, method, name):
    matrix, rare_paths = DIFFICULT[name]
    damping = 1e-6 if rare_paths[0] else 0.25
    result = inverters["float32"](matrix.astype("f"), damping, function=method)
    eigenvalues = np.linalg.eigvalsh(result.matrix.astype("f8"))
    assert eigenvalues.min() > 0
    assert eigenvalues.max() <= 1.01 / damping
    if method == "eigh":
        rare_paths = (0, 0, 0)
    elif name == "condition 1e12":
        # Its float32 form is just definite, or just not.
        rare_paths = (result.rare_paths[0], 0, 0)
    assert tuple(result.rare_paths) == rare_paths


def test_eigenbasis(graph, session):
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    previous = tf.ones([3, 2], tf.float64)
    found, kept = session.run(
        [eigendecomposition.eigenbasis(tf.constant(m), previous) for m in (matrix, np.nan * matrix)]
    )
    vectors, values = found.matrix[:2], found.matrix[2]
    np.testing.assert_allclose(values, [1, 3], rtol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, rtol=1e-12)
    np.testing.assert_array_equal(kept.matrix, np.ones([3, 2]))
    assert (tuple(found.rare_paths), tuple(kept.rare_paths)) == ((0, 0, 0), (0, 0, 1))


HALF = np.outer([1.0, 1], [1.0, 1]) / 2
"""Projects on the eigenvector of [[1, 2], [2, 1]] whose eigenvalue is 3; the other's is -1."""


@pytest.mark.parametrize(
    ("function", "matrix", "damping", "expected", "rare_paths"),
    [
        ("inverse", np.diag([1.0, -0.05]), 0.01, np.diag([1 / 1.1, 1 / 0.05]), (1, 0, 0)),
        ("inverse", 4 * HALF - np.eye(2), 1e-4, HALF / 3.0001 + (np.eye(2) - HALF) * 1e4, (1, 1,
         0)),
        ("power", np.diag([3.0, -1.0]), 0.25, np.diag([3.25**-0.5, 2.0]), (0, 0, 0)),
        ("inverse", np.full([2, 2], 1.5e308), 0.1, np.full([2, 2], 7.0), (1, 1, 1)),
    ],
    ids=["more damping", "clipped", "clipped in a power", "overflow keeps the previous"],
)  # fmt: skip
def test_what_becomes_of_an_indefinite_matrix(
    inverters, function, matrix, damping, expected, rare_paths
):
    dtype = "float64" if function == "power" or matrix.max() > 1e300 else "float32"
    result = inverters[dtype](matrix, damping, np.full([2, 2], 7.0), function)
    np.testing.assert_allclose(result.matrix, expected, rtol=1e-5)
    assert tuple(result.rare_paths) == rare_paths


def test_ordinary_inverse_decomposes_once(graph, session):
    matrix = v1.placeholder(tf.float32, [9, 9])
    result = damped_function(
        matrix, tf.constant(1.0), tf.zeros([9, 9]), attempts=INVERSES["cholesky"]
    )
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    assert (result.matrix.shape, result.rare_paths.shape) == ([9, 9], [3])
    session.run(result, {matrix: np.eye(9)}, options=options, run_metadata=metadata)
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    kinds = [node.timeline_label.rpartition(" = ")[2].partition("(")[0] for node in nodes]
    assert kinds.count("Cholesky") == 1
    assert kinds.count("PartitionedCall") == 1  # The first attempt, without the retries.
    assert not {"SelfAdjointEigV2", "Qr"}.intersection(kinds)


def test_ordinary_inverse_keeps_no_identity(graph, session, largest_constant):
    size = 2 * LARGEST_BLOCK
    matrix, damping = v1.placeholder(tf.float32, [size, size]), v1.placeholder(tf.float32, [])
    result = damped_function(matrix, damping, matrix, attempts=INVERSES["cholesky"])
    feed = {matrix: np.eye(size), damping: 1}
    assert largest_constant(result.matrix.op, feed) <= LARGEST_BLOCK**2


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("size", [1, 40])
def test_functions_of_definite_matrices(inverters, dtype, bound, size):
    basis = np.linalg.qr(np.random.RandomState(0).randn(size, size))[0]
    values = np.linspace(0.1, 2.0, size)
    matrix = ((basis * values) @ basis.T).astype(dtype)
    damped = matrix.astype("f8") + 0.3 * np.eye(size)
    root = np.linalg.cholesky(damped)
    expected = {
        **dict.fromkeys(METHODS, np.linalg.inv(damped)),
        "cholesky": root,
        "cholesky_inverse": np.linalg.inv(root),
        "power": (basis * (values + 0.3) ** -0.5) @ basis.T,
    }
    for function, value in expected.items():
        result = inverters[dtype](matrix, 0.3, function=function)
        np.testing.assert_allclose(result.matrix, value, atol=bound * 10)
        if function in METHODS:
            np.testing.assert_array_equal(result.matrix, result.matrix.T)
        assert tuple(result.rare_paths) == (0, 0, 0)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0], [2.0, 1.0]],  # eigenvalues 3 and -1
        [[-2.0, 1.0, 0.0], [1.0, 1.0, 2.0], [0.0, 2.0, -1.0]],  # QR gives negative diagonals
    ],
)
def test_indefinite_matrix_is_clipped_before_cholesky(inverters, matrix):
    matrix = np.array(matrix, "f")
    values, vectors = np.linalg.eigh(matrix.astype("d"))
    assert values[0] < 0 < values[-1]
    root = np.linalg.cholesky(vectors * (np.maximum(values, 0) + 1e-4) @ vectors.T)
    found = inverters["float32"](matrix, 1e-4, function="cholesky")
    np.testing.assert_allclose(found.matrix, root, rtol=1e-5, atol=1e-7)
    assert tuple(found.rare_paths) == (1, 1, 0)
    inverse = inverters["float32"](matrix, 1e-4, function="cholesky_inverse")
    np.testing.assert_allclose(inverse.matrix, np.linalg.inv(root), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("bad", "damping"),
    [(np.nan, 0.1), (np.inf, 0.1), (-np.inf, 0.1), (1, np.nan), (1, np.inf), (1, 0), (1, -1)],
)
def test_unusable_input_keeps_the_previous_function(inverters, bad, damping):
    previous = np.array([[2.0, 1.0], [1.0, 3.0]], "f")
    matrix = np.array([[2.0, bad], [bad, 2.0]], "f")
    for function in (*METHODS, "cholesky", "cholesky_inverse", "power"):
        result = inverters["float32"](matrix, damping, previous, function)
        np.testing.assert_array_equal(result.matrix, previous)
        assert tuple(result.rare_paths) == (0, 0, 1)


def test_xla_tries_inverses_again():
    """Definite, not definite in float32, indefinite, and not finite: never an error, never NaN."""
    matrices = np.array(
        [[[2, 1], [1, 2]], [[1, 1], [1, 1]], [[1, 2], [2, 1]], [[np.nan, 0], [0, 1]]]
    )
    matrices = matrices.astype("f")
    previous = np.full([2, 2], 7, "f")

    @tf.function(jit_compile=True)
    def inverse(matrix, damping):
        return damped_function(matrix, damping, previous, attempts=INVERSES["cholesky"])

    dampings = [0.5, 1e-9, 1e-6, 0.5]
    found = [inverse(*pair) for pair in zip(matrices, np.array(dampings, "f"), strict=True)]
    paths = [each.rare_paths.numpy().tolist() for each in found]
    assert paths == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]
    added = [0.5, 1e-9, 1e-6 + np.sqrt(10)]
    for matrix, each, damping in zip(matrices, found, added, strict=False):
        expected = np.linalg.inv(matrix.astype(float) + damping * np.eye(2))
        np.testing.assert_allclose(each.matrix, expected, rtol=1e-4)
    np.testing.assert_array_equal(found[3].matrix, previous)
