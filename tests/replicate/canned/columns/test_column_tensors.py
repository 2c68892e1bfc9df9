"""Tensors of single columns."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.columns.column_tensors import ColumnTensors

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
