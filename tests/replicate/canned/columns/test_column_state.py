"""Variables and tables of columns."""

import pytest
import tensorflow as tf

from replicate.canned.columns.column_state import ColumnState

v1 = tf.compat.v1
COLUMN = tf.feature_column.numeric_column("c")


def test_variable_is_that_of_the_scope_and_found_again(graph):
    state = ColumnState()
    with v1.variable_scope("scope"):
        made = state.create_variable(COLUMN, "weights", [2, 1], trainable=False, initializer=None)
    assert made.op.name == "scope/weights"
    assert state.get_variable(COLUMN, "weights") is made
    assert v1.trainable_variables() == []


def test_table_is_found_again():
    state, table = ColumnState(), object()
    assert not state.has_resource(COLUMN, "lookup")
    state.add_resource(COLUMN, "lookup", table)
    assert state.get_resource(COLUMN, "lookup") is table


@pytest.mark.parametrize(
    ("method", "kind"), [("get_variable", "variable"), ("get_resource", "lookup table")]
)
def test_error_for_absent_state_names_the_column(method, kind):
    with pytest.raises(ValueError, match=f"Feature column 'c' has no {kind} 'w'"):
        getattr(ColumnState(), method)(COLUMN, "w")
