import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator

v1 = tf.compat.v1

DIAGONAL = np.array([1.0, -2.0, 3.0])
MATRIX = np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_products(graph, session, kind, transpose):
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


def test_is_abstract():
    with pytest.raises(TypeError, match=r"abstract"):
        LinearOperator()
