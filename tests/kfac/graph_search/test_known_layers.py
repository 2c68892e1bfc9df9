"""Matches of a tower: which are kept, and which uses belong to one layer."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.graph_search.filtering import filter_subgraph_records
from kfac.graph_search.known_layers import find_matches
from kfac.graph_search.layer_uses import (
    Batch,
    Place,
    has_unknown_uses,
    uses_by_place,
    uses_per_example,
)
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType, group
from kfac.graph_search.tower import Tower

v1 = tf.compat.v1


def test_all_that_a_layer_can_be(graph):
    x, w, b = tf.ones([4, 3]), v1.get_variable("w", [3, 2]), v1.get_variable("b", [2])
    y = tf.matmul(x, w) + b
    found = find_matches(Tower([y], [w, b]))
    assert [record.params for record in found.records] == [w, (w, b)]
    alone, biased = found.records
    assert set(alone.tensor_set) < set(biased.tensor_set)
    assert biased.record_type is RecordType.fully_connected
    assert biased.data == {"inputs": x, "leading": [4], "outputs": y}
    assert (alone.description, biased.description) == (
        "MatMul 'MatMul'",
        "MatMul 'MatMul' with a bias",
    )
    assert found.refusals == {}
    assert found.additions == {b.ref(): "add"}


def test_every_use_is_looked_at(graph):
    x, w = tf.ones([4, 3]), v1.get_variable("w", [3, 3])
    found = find_matches(Tower([tf.matmul(x, w), tf.exp(w), tf.matmul(w, x, False, True)], [w]))
    assert len(found.records) == 1
    assert found.refusals == {w.ref(): "goes into 'Exp', and Exp is no known layer"}


@pytest.mark.parametrize("kind", ["loop", "condition", "function"])
def test_functions_and_their_v1_forms(behavior, graph, kind):
    x, w, b = tf.ones([2, 2]), v1.get_variable("w", [2, 2]), v1.get_variable("b", [2])
    if kind == "loop":
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s @ w + b), [0, x])
    elif kind == "function":
        y = tf.function(lambda: x @ w + b)()
    else:
        y = tf.cond(v1.placeholder(tf.bool, []), lambda: x @ w + b, lambda: x)
    found = find_matches(Tower([y], [w, b]))
    assert found.records == []
    for variable in (w, b):
        assert f"goes into the {kind} '" in found.refusals[variable.ref()]
        assert "no gradients outside of it" in found.refusals[variable.ref()]


def test_only_parts_of_a_match_with_a_common_parameter_are_dropped(graph):
    """The remaining matches are in the order of names, then of places."""
    a, b, c = (v1.get_variable(name, [1]) for name in "abc")
    w, x, y, z = (tf.constant(0.0) for _ in range(4))
    matches = (c, {x}, 0), (b, {z}, 3), (b, {w}, 2), (a, {x}, 1), ((a, b), {x, y}, 1)
    records = group(
        [MatchRecord(RecordType.fully_connected, key, at, order=n) for key, at, n in matches]
    )
    kept = filter_subgraph_records(records)
    assert [(key, [record.order for record in kept[key]]) for key in kept] == [
        ((a, b), [1]),
        (b, [2, 3]),
        (c, [0]),
    ]


@pytest.mark.parametrize(
    ("leading", "batch", "expected"),
    [
        ([None], Batch(), 1),
        ([None, 5], Batch(), 5),
        ([5, None, 2], Batch(8, True), 10),
        ([8], Batch(8), 1),
        ([8, 5], Batch(8), 5),
        ([5, 8], Batch(8), 5),
        ([40], Batch(8, True), 5),
        ([40], Batch(np.int64(8), True), 5),
        ([8, 5], Batch(), 5),
    ],
)
def test_number_of_uses(leading, batch, expected):
    assert uses_per_example(leading, batch, "MatMul 'a'") == expected


@pytest.mark.parametrize(
    ("leading", "examples", "expected"),
    [
        ([[32], [32]], 16, [2, 2]),
        ([[32], [64]], 32, [1, 2]),
        ([[None], [64]], 32, [1, 2]),
        ([[16], [16]], 32, [1, 1]),
        ([[24], [8]], 32, [1, 1]),
        ([[16], [16], [16]], 32, [1, 1, 1]),
        ([[16, 5], [16, 5]], 32, [5, 5]),
    ],
)
def test_uses_by_place(leading, examples, expected):
    places = [Place(sizes, f"MatMul {number}") for number, sizes in enumerate(leading)]
    for is_given in (True, False):
        assert uses_by_place(places, Batch(examples, is_given)) == expected


def test_rows_that_are_not_examples(graph):
    unknown = Batch(v1.placeholder(tf.int32, []))
    assert unknown.static is None
    assert has_unknown_uses([None, 3, None])
    assert not has_unknown_uses([3, None])
    for leading, batch, error, message in (
        ([5, 2], Batch(4, True), ValueError, "'a' has inputs with 10 rows, which batch_size=4"),
        ([10], Batch(4), NotRegistrableError, "10 rows, and the losses have 4; pass batch_s"),
        ([10], unknown, NotRegistrableError, "to 10 rows, but the size of the batch varies"),
    ):
        with pytest.raises(error, match=message):
            uses_per_example(leading, batch, "MatMul 'a'")
    assert uses_by_place([Place([16], "a")], Batch(32)) == [1]
    with pytest.raises(ValueError, match=r"with 16 rows, which batch_size=32 does not divide"):
        uses_by_place([Place([16], "a")], Batch(32, True))
    for rows in ([24, 24], [24], [1], [1, 16]):
        with pytest.raises(NotRegistrableError, match=r"rows, and the losses have 32"):
            uses_by_place([Place([n], "a") for n in rows], Batch(32))
