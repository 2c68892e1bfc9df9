"""Parsing specs of classifiers and regressors: features, label and weights of a tf.Example.

The result is for `tf.io.parse_example`. Head and estimator take the same label key and weight
column.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from replicate.errors import ArgumentTypeError

ParsingSpec: TypeAlias = dict[str, Any]


def classifier_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: Any = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> ParsingSpec:
    """Returns the spec that parses examples for a classifier.

    Args:
      feature_columns: Columns of `tf.feature_column` that the model uses.
      label_key: Key of the label in an example.
      label_dtype: Type of the label: tf.int64 for class ids, tf.string with a label vocabulary,
        tf.float32 for the binary classifier.
      label_default: Label of an example without one. None: such an example is an error.
      weight_column: Key of the example weights, or a `numeric_column`. None: no weights.

    Returns:
      Dict of key to `tf.io.FixedLenFeature`, `VarLenFeature` or the like. The label has shape [1].

    Raises:
      ValueError: The label or the weights have the key of a feature, they have the same key, or
        weight_column is neither a string nor a `numeric_column`.
    """
    label = tf.io.FixedLenFeature((1,), label_dtype, label_default)
    return _parsing_spec(
        "classifier_parse_example_spec", feature_columns, label_key, label, weight_column
    )


def regressor_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: Any = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> ParsingSpec:
    """Returns the spec that parses examples for a regressor.

    Args:
      feature_columns: Columns of `tf.feature_column` that the model uses.
      label_key: Key of the label in an example.
      label_dtype: Type of the label.
      label_default: Label of an example without one, a number or `label_dimension` numbers. None:
        such an example is an error.
      label_dimension: Numbers in a label.
      weight_column: Key of the example weights, or a `numeric_column`. None: no weights.

    Returns:
      Dict of key to `tf.io.FixedLenFeature`, `VarLenFeature` or the like. The label has shape
      [label_dimension].

    Raises:
      ValueError: The label or the weights have the key of a feature, they have the same key, or
        weight_column is neither a string nor a `numeric_column`.
    """
    label = tf.io.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _parsing_spec(
        "regressor_parse_example_spec", feature_columns, label_key, label, weight_column
    )


def _parsing_spec(
    function: str, feature_columns: Iterable[Any], label_key: str, label: Any, weight_column: Any
) -> ParsingSpec:
    """Returns the spec of the columns, with those of label and weights added."""
    columns = list(feature_columns)
    spec = dict(tf.feature_column.make_parse_example_spec(columns))
    if label_key in spec:
        raise ValueError(
            f"{function}: the label's key {label_key!r} is also the key of a feature. The features "
            f"are {_listed(spec)}. Take the column out of feature_columns, or correct label_key."
        )
    features = _listed(spec)
    spec[label_key] = label
    if weight_column is None:
        return spec
    weights = _numeric_column(function, weight_column)
    if weights.key in spec:
        role = "the label" if weights.key == label_key else "a feature"
        raise ValueError(
            f"{function}: the key of weight_column, {weights.key!r}, is also the key of {role}. "
            f"The features are {features}, the label is {label_key!r}. Keep the weights under a "
            "key of their own."
        )
    return {**spec, **weights.parse_example_spec}


def _numeric_column(function: str, weight_column: Any) -> Any:
    """Returns the numeric column of the weights."""
    if isinstance(weight_column, str):
        return tf.feature_column.numeric_column(weight_column)
    if not isinstance(weight_column, type(tf.feature_column.numeric_column("any"))):
        raise ArgumentTypeError(
            f"{function}: weight_column must be a key or a tf.feature_column.numeric_column, got "
            f"{weight_column!r}. Pass the key of the weights in an example."
        )
    return weight_column


def _listed(spec: ParsingSpec) -> Sequence[str]:
    return sorted(spec)
