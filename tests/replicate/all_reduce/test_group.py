"""Collectives between workers, as one of them builds them."""

import numpy as np
import tensorflow as tf

from replicate.all_reduce import group


def test_gathered_rows_have_eight_sizes_between_powers_of_two_and_a_key_for_each(graph):
    """TensorFlow keeps the shape of a collective by its key: no two sizes may share one."""
    powers = 2 ** np.arange(8, 31)
    counts = [*range(257), *powers, *(powers - 1)]
    asked = tf.compat.v1.placeholder(tf.int32, [])
    found = group._size_class(asked)
    with tf.compat.v1.Session() as session:
        sizes = [session.run(found, {asked: count}) for count in counts]
    rows_of = {}
    for count, (rows, number) in zip(counts, sizes, strict=True):
        assert count <= rows <= max(1, count * 9 / 8)
        assert 0 <= number < group._SIZES
        assert rows_of.setdefault(number, rows) == rows
    rows = {size.rows for size in sizes}
    assert sorted(each for each in rows if 128 <= each <= 256) == list(range(128, 257, 16))
