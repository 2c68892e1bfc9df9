"""Tables and variables of columns, and lookups in them."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_lookup import look_up
from replicate.canned.columns.column_state import ColumnState

v1 = tf.compat.v1

TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def pair(ids, weights=None):
    return SimpleNamespace(id_tensor=ids, weight_tensor=weights)


def test_gathered_rows_have_the_gradient_of_combined_ones(graph):
    table = v1.get_variable("table", initializer=TABLE)
    ids = tf.SparseTensor([[0, 0], [2, 0], [3, 0]], tf.constant([1, 0, 1], tf.int64), [4, 1])
    shape = v1.placeholder_with_default(np.array([4, 1]), [2])
    unknown = tf.SparseTensor(ids.indices, ids.values, shape)
    factors = np.arange(8, dtype=np.float32).reshape(4, 2)
    results = []
    for each in (ids, unknown):
        rows = look_up(table, pair(each), "mean")
        gradient = tf.convert_to_tensor(tf.gradients(rows.values * factors, table)[0])
        results.append((rows.values, gradient))
        assert (rows.layer is None) == (each is unknown)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for values, gradient in session.run(results):
            np.testing.assert_allclose(values, [[3, 4], [0, 0], [1, 2], [3, 4]])
            np.testing.assert_allclose(gradient, [[4, 5], [6, 8], [0, 0]])


def test_ids_of_a_sequence_are_combined(graph):
    ids = tf.SparseTensor([[0, 0, 0], [0, 1, 0]], tf.constant([0, 2], tf.int64), [2, 2, 1])
    rows = look_up(tf.Variable(TABLE), pair(ids), "sum")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(rows.values), [[6, 8], [0, 0]])


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
