"""Records of matches, and the texts of decisions."""

import pytest
import tensorflow as tf

from kfac.graph_search.records import (
    AmbiguousRegistrationError,
    MatchRecord,
    RecordType,
    ensure_sequence,
    group,
    names_of,
    refs,
)
from kfac.registration.decision import Decision, decision_lines, warning_text

v1 = tf.compat.v1


def test_records_have_the_defaults_of_what_is_not_known():
    record = MatchRecord(RecordType.conv2d, "w", {1, 2})
    assert (record.data, record.order, record.description) == ({}, 0, "")


@pytest.mark.parametrize(
    ("value", "expected"), [(1, (1,)), ((1, 2), (1, 2)), ([1, 2], [1, 2]), ("ab", ("ab",))]
)
def test_ensure_sequence(value, expected):
    assert ensure_sequence(value) == expected


def test_ambiguity_is_a_value_error():
    assert issubclass(AmbiguousRegistrationError, ValueError)


def test_groups_are_in_the_order_of_names_and_places(graph):
    b, a = v1.get_variable("b", [1]), v1.get_variable("a", [1])
    records = [
        MatchRecord(RecordType.fully_connected, params, set(), order=order)
        for params, order in ((b, 2), ((a, b), 3), (b, 1))
    ]
    grouped = group(records)
    assert list(grouped) == [(a, b), b]
    assert [record.order for record in grouped[b]] == [1, 2]
    assert names_of((a, b)) == ("a", "b")
    assert refs((a, b)) == {a.ref(), b.ref()}


def test_texts_of_decisions(graph):
    w, b, gain = (v1.get_variable(name, [1]) for name in ("w", "b", "gain"))
    layer, lost = Decision((w, b), "dense layer"), Decision(gain, "generic", is_expected=False)
    assert decision_lines([layer, lost]) == ["w, b: dense layer", "gain: generic"]
    assert warning_text([layer]) is None
    assert "that they belong to:\n  gain: generic\nIf they" in warning_text([layer, lost])
