from collections import OrderedDict, namedtuple

import pytest
import tensorflow as tf

from replicate.batch.nests import flatten, keys_in_order, pack_like

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


@pytest.mark.parametrize("nest", [{"b": 1, "a": [2, (3,)]}, {2: 1, 1: 2}, 7, None, []])
def test_other_nests_are_those_of_tf_nest(nest):
    assert flatten(nest) == tf.nest.flatten(nest)
    assert pack_like(nest, flatten(nest)) == nest
