import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.inversion import INVERSIONS, LARGEST_BLOCK, by_cholesky, inverse_from_root

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def inversions():
    """A function of (method, matrix); one graph for all."""
    with tf.Graph().as_default() as graph:
        matrices = {dtype: v1.placeholder(dtype, [None, None]) for dtype in ("float32", "float64")}
        found = {
            (method, dtype): invert(matrix, tf.eye(tf.shape(matrix)[0], dtype=dtype))
            for method, invert in INVERSIONS.items()
            for dtype, matrix in matrices.items()
        }
    with v1.Session(graph=graph) as session:
        yield lambda method, matrix: session.run(
            found[method, matrix.dtype.name], {matrices[matrix.dtype.name]: matrix}
        )


def conditioned(size, condition, dtype):
    basis = np.linalg.qr(np.random.RandomState(size).randn(size, size))[0]
    matrix = (basis * np.logspace(0, -np.log10(condition), size)) @ basis.T
    return (0.5 * (matrix + matrix.T)).astype(dtype)


@pytest.mark.parametrize("method", INVERSIONS)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_residual_of_definite_matrices(inversions, method, dtype, bound, size):
    for scale in (1e-6, 1.0, 1e6):
        for condition, factor in ((10.0, 1), (1e4, 1e3)):
            matrix = conditioned(size, condition, dtype) * np.asarray(scale, dtype)
            inverse = inversions(method, matrix)
            residual = np.abs(inverse.astype("f8") @ matrix - np.eye(size)).max()
            assert residual <= bound * factor
            np.testing.assert_array_equal(inverse, inverse.T)


@pytest.mark.parametrize("method", INVERSIONS)
def test_other_matrices_give_no_finite_inverse(inversions, method):
    """Zero, singular, indefinite and slightly indefinite ones."""
    for matrix in (np.zeros([2, 2]), np.ones([2, 2]), np.diag([1.0, -1, -1]), np.diag([1, -1e-3])):
        assert not np.isfinite(inversions(method, matrix)).all()


def test_iteration_fails_if_its_precision_is_too_low(inversions):
    assert np.isnan(inversions("newton_schulz", conditioned(32, 1e8, "float32"))).all()
    assert np.isfinite(inversions("newton_schulz", conditioned(32, 1e8, "float64"))).all()


def test_large_matrices_by_blocks_are_as_precise(graph, session):
    size = 2 * LARGEST_BLOCK + 1
    matrix = conditioned(size, 1e4, "float32")
    whole = inverse_from_root(tf.linalg.cholesky(matrix), tf.eye(size))
    blocks, whole = session.run([by_cholesky(tf.constant(matrix), tf.eye(size)), whole])
    residuals = [np.linalg.norm(x.astype("f8") @ matrix - np.eye(size)) for x in (blocks, whole)]
    assert residuals[0] <= 2 * residuals[1]
    np.testing.assert_array_equal(blocks, blocks.T)


@pytest.mark.parametrize("size", [9, LARGEST_BLOCK + 1])
def test_cholesky_reads_the_lower_triangle(graph, session, size):
    matrix = conditioned(size, 10.0, "float64")
    found = session.run(
        [
            by_cholesky(tf.constant(m), tf.eye(size, dtype=tf.float64))
            for m in (matrix, np.tril(matrix))
        ]
    )
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], np.linalg.inv(matrix), rtol=1e-9, atol=1e-9)


def test_large_indefinite_matrices_fail(graph, session):
    matrix = np.eye(2 * LARGEST_BLOCK, dtype="f4")
    matrix[-1, 0] = matrix[0, -1] = 1.1
    inverse = session.run(by_cholesky(tf.constant(matrix), tf.eye(len(matrix))))
    assert not np.isfinite(inverse).all()


def test_large_matrices_of_one_size_share_their_operations(evaluate):
    size = 2 * LARGEST_BLOCK
    matrix = conditioned(size, 10.0, "float32")
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            inverses = [by_cholesky(tf.constant(matrix) * scale, None) for scale in (1.0, 4.0)]
            first, second = evaluate(inverses)
        names = [function.signature.name for function in graph.as_graph_def().library.function]
        assert sum("inverse_by_blocks" in name for name in names) == 1
        assert len(graph.get_operations()) < 20
        np.testing.assert_allclose(first @ matrix, np.eye(size), atol=1e-4)
        np.testing.assert_array_equal(first, 4 * second)
