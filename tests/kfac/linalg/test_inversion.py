import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.damped_matrix import INVERSIONS, LARGEST_BLOCK, by_cholesky, inverse_from_root

v1 = tf.compat.v1


def conditioned(size, condition, dtype):
    basis = np.linalg.qr(np.random.RandomState(size).randn(size, size))[0]
    matrix = (basis * np.logspace(0, -np.log10(condition), size)) @ basis.T
    return (0.5 * (matrix + matrix.T)).astype(dtype)


def test_iteration_fails_if_its_precision_is_too_low(graph, session):
    for dtype, succeeds in (("float32", False), ("float64", True)):
        matrix = tf.constant(conditioned(32, 1e8, dtype))
        inverse = session.run(INVERSIONS["newton_schulz"](matrix, tf.eye(32, dtype=dtype)))
        assert (np.isfinite(inverse) == succeeds).all()


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
