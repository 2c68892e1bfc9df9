"""Matrices in other forms: operators, and packed symmetric ones."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric

v1 = tf.compat.v1

DIAGONAL = np.array([1.0, -2.0, 3.0])
MATRIX = np.arange(9.0).reshape(3, 3)


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
