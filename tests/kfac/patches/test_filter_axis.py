import numpy as np
import tensorflow as tf

from kfac.patches.filter_axis import FilterAxis, entry_pairs, rows_and_columns
from kfac.patches.geometry import ConvGeometry

v1 = tf.compat.v1


def test_rows_and_columns(graph):
    images = v1.placeholder(tf.float32, [None, 7, 6, 2])
    same = rows_and_columns(images, ConvGeometry((3, 4), (1, 1), "SAME"))
    assert same == (FilterAxis(7, 3, 1, 7), FilterAxis(6, 4, 1, 6))
    valid = rows_and_columns(images, ConvGeometry((3, 7), (1, 1), "VALID"))
    assert valid == (FilterAxis(7, 3, 0, 5), FilterAxis(6, 7, 0, 0))


def test_one_dimension_has_one_column(graph):
    images = v1.placeholder(tf.float32, [None, 9, 2])
    found = rows_and_columns(images, ConvGeometry((5,), (1,), "SAME", (1,)))
    assert found == (FilterAxis(9, 5, 2, 9), FilterAxis(1, 1, 0, 1))


def test_pixels_seen_by_an_entry():
    axis = FilterAxis(4, 3, 1, 4)
    np.testing.assert_array_equal(axis.seen(0), [-1, 0, 1, 2])
    assert [axis.window(entry, 0) for entry in range(3)] == [(0, 3), (0, 4), (1, 4)]
    assert [axis.window(entry, 1) for entry in range(2)] == [(0, 3), (0, 3)]


def test_entry_pairs():
    assert entry_pairs(3) == [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)]
