"""Tensors of single columns."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_tensors import ColumnTensors
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
fc = tf.feature_column
IDS = fc.categorical_column_with_identity("id", 3)


def test_dense_value_is_a_row_per_example(graph):
    tensors = ColumnTensors({"x": np.ones([2, 2, 3])})
    value = tensors.dense(fc.numeric_column("x", [2, 3]))
    assert value.values.shape.as_list() == [2, 6]
    assert value.layers == []


def test_column_with_max_norm_is_looked_up_by_tensorflow(graph):
    column = fc.embedding_column(
        IDS, 1, initializer=v1.constant_initializer([[3.0], [0.5], [-2.0]]), max_norm=1.0
    )
    tensors = ColumnTensors({"id": [0, 1, 2]})
    tensors.create_variables(column)
    value = tensors.dense(column)
    assert value.layers == []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(value.values), [[1], [0.5], [-1]])


def test_weights_start_at_zero(graph):
    weights = ColumnTensors({"id": [1]}).create_weights(IDS, 3, 2)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(weights), np.zeros([3, 2]))


def test_missing_ids_name_the_column(graph):
    with pytest.raises(ValueError, match="Cannot compute feature column 'id': features has no"):
        ColumnTensors({}).ids_and_weights(IDS)


def test_other_number_of_values_than_the_column_has_is_refused(graph):
    column = fc.numeric_column("x", [2])
    text = r"column 'x': it takes 2 values for each example\..* Received shape "
    with pytest.raises(ValueError, match=text + r"\(4, 1\)\.$"):
        ColumnTensors({"x": np.ones([4, 1])}).dense(column)
    given = v1.placeholder(tf.float32, [None, None])
    value = ColumnTensors({"x": given}).dense(column).values
    with v1.Session() as session:
        assert session.run(value, {given: [[1, 2]]}).tolist() == [[1, 2]]
        with pytest.raises(ValueError, match=text + r"\[4 1\]\.$"), user_errors():
            session.run(value, {given: np.ones([4, 1])})


def test_strings_for_a_numeric_column_are_refused(graph):
    column = fc.bucketized_column(fc.numeric_column("x"), [0.0])
    with pytest.raises(ValueError, match="column 'x': it takes numbers, but feature 'x' is of"):
        ColumnTensors({"x": [["1"]]}).dense(column)
