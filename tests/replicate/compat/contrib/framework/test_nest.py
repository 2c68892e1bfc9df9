"""Functions on structures that tf.nest lacks."""

import collections

import pytest

from replicate.compat.contrib.framework import nest

Pair = collections.namedtuple("Pair", "first second")
TREE = {"b": [1, Pair(2, 3)], "a": (4,)}


def test_public_functions_are_those_of_tf_nest():
    assert nest.flatten(TREE) == [4, 1, 2, 3]
    assert nest.map_structure(lambda x: -x, TREE) == {"b": [-1, Pair(-2, -3)], "a": (-4,)}
    assert nest.pack_sequence_as(TREE, [1, 2, 3, 4]) == {"b": [2, Pair(3, 4)], "a": (1,)}
    assert nest.is_sequence([1])
    assert not nest.is_sequence("text")


def test_paths_are_in_the_order_of_flatten():
    assert nest.flatten_with_tuple_paths(TREE) == [
        (("a", 0), 4),
        (("b", 0), 1),
        (("b", 1, "first"), 2),
        (("b", 1, "second"), 3),
    ]
    assert nest.flatten_with_joined_string_paths({"a": [1]}, "-") == [("a-0", 1)]
    named = nest.map_structure_with_paths(lambda path, x, y: f"{path}={x + y}", TREE, TREE)
    assert named == {"b": ["b/0=2", Pair("b/1/first=4", "b/1/second=6")], "a": ("a/0=8",)}


def test_structures_are_taken_up_to_a_shallower_one():
    shallow = {"a": 0, "b": [0, 0]}
    assert nest.flatten_up_to(shallow, TREE) == [(4,), 1, Pair(2, 3)]
    both = nest.map_structure_up_to(shallow, lambda x, y: (x, y), TREE, TREE)
    assert both["b"][0] == (1, 1)
    assert nest.flatten_up_to(0, TREE) == [TREE]


@pytest.mark.parametrize(
    ("shallow", "deep", "error", "message"),
    [
        ([0], 1, TypeError, "Expected a structure like"),
        ([0], (1,), TypeError, "Expected a list like"),
        ([0], [1, 2], ValueError, "must have the same elements"),
        ({"a": 0}, {"b": 0}, ValueError, r"must have the same elements: \['a'\] and \['b'\]"),
    ],
)
def test_structures_that_begin_otherwise_are_refused(shallow, deep, error, message):
    with pytest.raises(error, match=message):
        nest.assert_shallow_structure(shallow, deep)


def test_types_are_checked_if_asked_for():
    nest.assert_shallow_structure([0], (1,), check_types=False)
    with pytest.raises(ValueError, match="got no structure"):
        nest.map_structure_up_to([0], abs)


def test_keys_of_a_dict_are_flattened():
    assert nest.flatten_dict_items({(4, 5): ("a", "b"), 6: ["c"]}) == {4: "a", 5: "b", 6: ["c"]}
    with pytest.raises(TypeError, match="takes a dict"):
        nest.flatten_dict_items([1])
    with pytest.raises(ValueError, match="occurs twice"):
        nest.flatten_dict_items({(1, 2): (3, 4), 1: 5})
    with pytest.raises(ValueError, match="different structures"):
        nest.flatten_dict_items({(1, 2): (3,)})
