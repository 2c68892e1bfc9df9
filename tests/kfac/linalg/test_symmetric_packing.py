import numpy as np
import pytest
import tensorflow as tf

from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric

v1 = tf.compat.v1


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_round_trip(graph, session, size):
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
