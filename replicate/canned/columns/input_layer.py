"""Input of a network: dense feature columns side by side, in the order of their names."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.columns.column_cache import as_tensor, check_features
from replicate.canned.columns.column_kinds import Column, is_shared_v1, scope_name
from replicate.canned.columns.column_tensors import ColumnTensors
from replicate.canned.columns.shared_tables import tracking_shared_tables
from replicate.canned.model_record import Layer

v1 = tf.compat.v1


class InputLayer(NamedTuple):
    """Input of a network, [batch, elements of all columns], and records of its embeddings."""

    values: Tensor
    layers: list[Layer]


def input_layer(features: Mapping[str, Any], columns: Sequence[Column]) -> InputLayer:
    """Computes columns from features; makes or shares their variables.

    Variables of a column are called input_layer/COLUMN/embedding_weights below the current variable
    scope. A shared table of `tf.feature_column.shared_embeddings` is in the current scope itself.

    Args:
      features: Features by key.
      columns: From `dense_columns`.

    Returns:
      The columns' vectors, side by side.

    Raises:
      ValueError: features is not a dict, or a column's feature is missing.
    """
    check_features(features)
    if any(map(is_shared_v1, columns)):
        with tracking_shared_tables("input_layer"):
            values = v1.feature_column.input_layer(converted(features), columns)
        return InputLayer(values, [])
    tensors = ColumnTensors(features)
    with v1.variable_scope("input_layer"):
        for column in columns:
            with v1.variable_scope(scope_name(column)):
                tensors.create_variables(column)
    with tracking_shared_tables("input_layer"), v1.name_scope("input_layer"):
        found = [tensors.dense(column) for column in columns]
        values = tf.concat([each.values for each in found], axis=1)
    return InputLayer(values, [layer for each in found for layer in each.layers])


def converted(features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns features as Tensors and SparseTensors, for functions of TensorFlow."""
    return {key: as_tensor(value) for key, value in features.items()}
