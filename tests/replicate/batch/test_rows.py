"""Rows of a batch and of nests of it: counted, added and cut."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch import split as rows
from replicate.batch.nests import flatten, keys_in_order, pack_like

v1 = tf.compat.v1
SPARSE = {
    "vector": [7.0, 0.0, 8.0],
    "matrix": [[1.0, 0.0], [0.0, 0.0], [2.0, 3.0]],
    "last_row_empty": [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]],
    "no_entries": [[0.0, 0.0]] * 3,
    "one_row": [[0.0, 4.0]],
    "rank_3": [[[0.0, 1.0]], [[2.0, 0.0]], [[3.0, 4.0]]],
    "strings": [["a", ""], ["", "b"], ["c", "d"]],
}


@pytest.mark.parametrize("values", SPARSE.values(), ids=SPARSE)
def test_padding_of_sparse_rows_is_that_of_dense_rows(graph, values, evaluate):
    dense = tf.constant(values)
    leaf = tf.sparse.from_dense(dense)
    fetches = []
    for multiple in (1, 2, 4, 5):
        padded = rows.padded(leaf, rows.rows_of(leaf), multiple)
        wanted = rows.padded(dense, len(values), multiple)
        fetches.append([wanted, tf.sparse.to_dense(padded), padded.indices])
    for expected, got, indices in evaluate(fetches):
        np.testing.assert_array_equal(got, expected)
        assert sorted(map(tuple, indices)) == [tuple(index) for index in indices]


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_padding_of_ragged_rows_repeats_the_last_one(graph, splits, evaluate):
    values = [[[1], [2, 3]], [], [[4], [], [5]]]
    for given in (values, values[:2]):  # The last row of the second is empty.
        ragged = tf.ragged.constant(given, ragged_rank=2, row_splits_dtype=splits)
        padded = rows.padded(ragged, rows.rows_of(ragged), 4)
        assert evaluate(padded).to_list() == given + [given[-1]] * (4 - len(given))


Pair = namedtuple("Pair", ["first", "second"])

MIXED = {"b": 1, 2: Pair([2, {"x": 3, 0: 4}], 5), "a": (6, OrderedDict(d=7, c=8)), 1: 9}


def test_dicts_with_keys_of_two_kinds():
    assert keys_in_order(MIXED) == [1, 2, "a", "b"]
    leaves = flatten(MIXED)
    assert leaves == [9, 2, 4, 3, 5, 6, 8, 7, 1]
    assert pack_like(MIXED, leaves) == MIXED
    assert list(pack_like(MIXED, leaves)) == list(MIXED)
    assert isinstance(pack_like(MIXED, leaves)[2], Pair)


def test_composites_are_taken_apart_if_asked(graph):
    nest = {0: tf.sparse.from_dense([1, 0]), "a": 2}
    assert flatten(nest) == [nest[0], 2]
    assert len(flatten(nest, expand_composites=True)) == 4


@pytest.mark.parametrize("nest", [{"b": 1, "a": [2, (3,)]}, {2: 1, 1: 2}, None, []])
def test_other_nests_are_those_of_tf_nest(nest):
    assert flatten(nest) == tf.nest.flatten(nest)
    assert pack_like(nest, flatten(nest)) == nest
