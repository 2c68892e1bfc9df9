"""Linear model of feature columns: a sum over columns, and a bias."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.canned.columns.column_cache import check_features
from replicate.canned.columns.column_kinds import (
    Column,
    is_categorical,
    is_shared_v1,
    scope_name,
)
from replicate.canned.columns.column_tensors import ColumnTensors, look_up
from replicate.canned.columns.input_layer import converted
from replicate.canned.columns.shared_tables import tracking_shared_tables
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import is_whole

v1 = tf.compat.v1


class LinearModel(NamedTuple):
    """A linear model of feature columns.

    Attributes:
      logits: [batch, units].
      bias: Variable [units].
      weights: The other variables, of all columns.
      layers: Records of products and look-ups.
    """

    logits: Tensor
    bias: Variable
    weights: list[Variable]
    layers: list[Layer]


class _Term(NamedTuple):
    """Share of one column in the logits."""

    logits: Tensor
    weights: Variable
    layers: list[Layer]


def linear_model(
    features: Mapping[str, Any], columns: Sequence[Column], units: int, sparse_combiner: str
) -> LinearModel:
    """Sums the columns' values times weights, and a bias. All of these variables start at zero.

    Variables are called linear_model/COLUMN/weights and linear_model/bias_weights below the current
    variable scope. The columns are from `linear_columns`.

    Raises:
      ValueError: features is not a dict, or a column's feature is missing.
    """
    check_features(features)
    if any(map(is_shared_v1, columns)):
        return _model_of_v1(features, columns, units, sparse_combiner)
    tensors = ColumnTensors(features)
    with v1.variable_scope("linear_model"):
        weights = [_create_weights(tensors, column, units) for column in columns]
        bias = v1.get_variable("bias_weights", [units], initializer=v1.zeros_initializer())
    with tracking_shared_tables("linear_model"), v1.name_scope("linear_model"):
        terms = [
            _term(tensors, column, variable, sparse_combiner)
            for column, variable in zip(columns, weights, strict=True)
        ]
        logits = tf.nn.bias_add(v1.add_n([term.logits for term in terms]), bias)
    return LinearModel(logits, bias, weights, _layers(terms, bias))


def _create_weights(tensors: ColumnTensors, column: Column, units: int) -> Variable:
    """Makes the variables of a column, and its weights: [ids or elements, units]."""
    with v1.variable_scope(scope_name(column)):
        if is_categorical(column):
            return tensors.create_weights(column, column.num_buckets, units)
        tensors.create_variables(column)
        return tensors.create_weights(column, column.variable_shape.num_elements(), units)


def _term(tensors: ColumnTensors, column: Column, weights: Variable, combiner: str) -> _Term:
    if is_categorical(column):
        rows = look_up(weights, tensors.ids_and_weights(column), combiner)
        return _Term(rows.values, weights, [rows.layer] if rows.layer else [])
    dense = tensors.dense(column)
    logits = tf.matmul(dense.values, weights)
    own = [Layer("dense", weights, None, dense.values, logits)] if is_whole(weights) else []
    return _Term(logits, weights, [*dense.layers, *own])


def _layers(terms: Sequence[_Term], bias: Variable) -> list[Layer]:
    """Returns the records of all terms. The first product has the bias, which all share."""
    layers = [layer for term in terms for layer in term.layers]
    products = [index for index, layer in enumerate(layers) if layer.kind == "dense"]
    if products and is_whole(bias):
        layers[products[0]] = dataclasses.replace(layers[products[0]], bias=bias)
    return layers


def _model_of_v1(
    features: Mapping[str, Any], columns: Sequence[Column], units: int, sparse_combiner: str
) -> LinearModel:
    """Builds the model by TensorFlow's own function, which knows the shared columns of v1."""
    variables: dict[Any, Any] = {}
    with tracking_shared_tables("linear_model"):
        logits = v1.feature_column.linear_model(
            converted(features),
            columns,
            units=units,
            sparse_combiner=sparse_combiner,
            cols_to_vars=variables,
        )
    bias = variables.pop("bias")
    weights = [each for found in variables.values() for each in tf.nest.flatten(found)]
    return LinearModel(logits, bias[0] if isinstance(bias, list) else bias, weights, [])
