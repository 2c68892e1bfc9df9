"""Rows of a batch: counted, added and cut."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import rows

v1 = tf.compat.v1


def evaluate(nest):
    with v1.Session() as session:
        return session.run(nest)


def test_rows_are_counted_while_building_where_possible(graph):
    assert rows.rows_of(np.zeros([3, 2])) == 3
    assert rows.rows_of(tf.zeros([4])) == 4
    unknown = v1.placeholder_with_default(np.zeros([5, 1]), [None, 1])
    sparse = tf.SparseTensor([[0, 0]], [1.0], [6, 2])
    ragged = tf.ragged.constant([[1], [2, 3]])
    assert evaluate([rows.rows_of(leaf) for leaf in (unknown, sparse, ragged)]) == [5, 6, 2]


@pytest.mark.parametrize(
    ("count", "shards", "sizes"),
    [(6, 3, [2, 2, 2]), (7, 3, [3, 2, 2]), (2, 4, [1, 1, 0, 0]), (5, 1, [5])],
)
def test_sizes_differ_by_at_most_one(graph, count, shards, sizes):
    assert rows.shard_sizes(count, shards) == sizes
    assert evaluate(rows.shard_sizes(tf.constant(count), shards)) == sizes


def test_padded_is_a_multiple(graph):
    dense = rows.padded(tf.constant([[1, 2], [3, 4], [5, 6]]), 3, 2)
    np.testing.assert_array_equal(evaluate(dense), [[1, 2], [3, 4], [5, 6], [5, 6]])
    sparse = rows.padded(tf.SparseTensor([[2, 0]], [1.0], [3, 1]), 3, 2)
    np.testing.assert_array_equal(evaluate(tf.sparse.to_dense(sparse)), [[0], [0], [1], [0]])


def test_cut_keeps_known_shapes_when_shards_are_equal(graph):
    unknown = v1.placeholder(tf.float32, [None, 2])
    parts = rows.cut(unknown, rows.rows_of(unknown), 2, equal=True)
    assert [part.op.type for part in parts] == ["Split", "Split"]
    assert [part.shape.as_list() for part in rows.cut(tf.zeros([5, 2]), 5, 2, equal=False)] == [
        [3, 2],
        [2, 2],
    ]
