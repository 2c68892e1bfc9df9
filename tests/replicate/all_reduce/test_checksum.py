"""Checksums of variables."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.all_reduce.checksum import checksum

v1 = tf.compat.v1


def number(values):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(checksum(tf.constant(values)))


@pytest.mark.parametrize(
    "kind", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.complex64, bool]
)
def test_a_checksum_changes_with_values_and_order(kind):
    values = np.array([1, 0, 1, 1, 0], kind)
    assert number(values) == number(values.copy())
    assert number(values) != number(values[::-1])
    changed = values.copy()
    changed[2] = 0
    assert number(values) != number(changed)


def test_a_checksum_is_that_of_the_bits():
    values = np.array([1.5, -2.0, 0.1], np.float32)
    expected = np.sum(values.view(np.int32).astype(np.int64) * np.array([1, 3, 5]))
    assert number(values) == expected
    assert number(np.float32(0.0)) != number(np.float32(-0.0))
