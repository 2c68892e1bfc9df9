import pytest
import tensorflow as tf

from kfac.graph_search.filtering import (
    check_disjoint,
    filter_grouped_variable_records,
    filter_subgraph_records,
    filter_user_registered_records,
)
from kfac.graph_search.records import AmbiguousRegistrationError, MatchRecord, RecordType, group

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    return [v1.get_variable(name, [1]) for name in "abcd"]


def record(params, *tensors, order=0):
    return MatchRecord(RecordType.fully_connected, params, set(tensors), order=order)


def test_what_the_user_registered_wins(variables):
    a, b, c, d = variables
    records = group([record(a), record((a, b)), record((b, c)), record(d)])
    assert list(filter_user_registered_records(records, [])) == list(records)
    assert list(filter_user_registered_records(records, [a])) == [(b, c), d]
    assert list(filter_user_registered_records(records, [c, d])) == [a, (a, b)]


def test_linked_parameters_stay_together(variables):
    a, b, c, d = variables
    records = group([record(a), record((a, b)), record((a, b, c)), record(d)])
    assert list(filter_grouped_variable_records(records, [])) == list(records)
    assert list(filter_grouped_variable_records(records, [frozenset([b, a])])) == [(a, b), d]
    assert list(filter_grouped_variable_records(records, [frozenset([a])])) == [a, d]
    assert list(filter_grouped_variable_records(records, [frozenset([c, d])])) == [a, (a, b)]


def test_the_larger_match_wins(variables):
    a, b, *_ = variables
    x, y, z = (tf.constant(0.0) for _ in range(3))
    records = group([record(a, x, y), record((a, b), x, y, z)])
    assert list(filter_subgraph_records(records)) == [(a, b)]


@pytest.mark.parametrize("case", ["equal", "without a common parameter", "at another place"])
def test_matches_that_are_not_contained(variables, case):
    a, b, *_ = variables
    x, y, z = (tf.constant(0.0) for _ in range(3))
    larger = {
        "equal": record((a, b), x),
        "without a common parameter": record(b, x, y),
        "at another place": record((a, b), y, z),
    }[case]
    records = group([record(a, x), larger])
    assert filter_subgraph_records(records) == records


def test_several_uses_of_one_key_are_all_kept(variables):
    a, *_ = variables
    places = [tf.constant(0.0) for _ in range(3)]
    records = group([record(a, place, order=i) for i, place in enumerate(places)])
    assert [r.order for r in filter_subgraph_records(records)[a]] == [0, 1, 2]


def test_parameter_of_two_layers(variables):
    a, b, c, d = variables
    check_disjoint(group([record((a, b)), record(c), record(d)]))
    with pytest.raises(AmbiguousRegistrationError, match=r"has \(a, b\) and \(b, c\) as layers"):
        check_disjoint(group([record((a, b)), record((b, c))]))
