"""Kinds of feature columns, told apart by their methods, and checks of lists of columns.

A dense column answers `get_dense_tensor`, a categorical one `get_sparse_tensors`. Columns of
`tf.compat.v1.feature_column.shared_embedding_columns` have neither state nor these methods: only
functions of `tf.compat.v1.feature_column` understand them.
"""

import collections
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate.errors import ArgumentTypeError

v1 = tf.compat.v1

Column: TypeAlias = Any
"""A feature column of `tf.feature_column` or `tf.compat.v1.feature_column`."""

_IN_SCOPE = re.compile(r"[^A-Za-z0-9_.\-/]")


def is_dense(column: Column) -> bool:
    """Returns True if the column gives one dense vector per example."""
    return hasattr(column, "get_dense_tensor") and hasattr(column, "variable_shape")


def is_categorical(column: Column) -> bool:
    """Returns True if the column gives ids."""
    return hasattr(column, "get_sparse_tensors") and hasattr(column, "num_buckets")


def is_shared_v1(column: Column) -> bool:
    """Returns True for a column of `tf.compat.v1.feature_column.shared_embedding_columns`."""
    return hasattr(column, "shared_embedding_collection_name") and not is_dense(column)


def is_sequence(column: Column) -> bool:
    """Returns True if the column gives a sequence of ids or vectors."""
    ids = getattr(column, "categorical_column", None)
    if is_categorical(column) and not is_dense(column):
        is_weighted = hasattr(column, "weight_feature_key")
        return ids is not None and (not is_weighted or is_sequence(ids))
    if is_dense(column):
        return ids is not None and is_sequence(ids)
    return hasattr(column, "get_sequence_dense_tensor")


def scope_name(column: Column) -> str:
    """Returns the column's name as the name of a variable scope."""
    return _IN_SCOPE.sub("_", str(column.name))


def dense_columns(argument: str, columns: Any) -> tuple[Column, ...]:
    """Returns columns for the input of a network, in the order of their names.

    Raises:
      ValueError: There is none, two have one name, or one is categorical or a sequence.
      TypeError: One is not a feature column.
    """
    ordered = _ordered(argument, columns)
    for column in ordered:
        if is_sequence(column):
            raise ValueError(
                f"Cannot feed a network with the sequence column {column.name!r} of {argument}: "
                "its length differs between examples. Take the column without 'sequence', or "
                "write a model_fn with tf.keras.experimental.SequenceFeatures."
            )
        if not is_dense(column) and not is_shared_v1(column):
            raise ValueError(
                f"Cannot feed a network with the categorical column {column.name!r} of {argument}: "
                "it gives ids, and a network needs numbers. Wrap it in "
                "tf.feature_column.embedding_column or tf.feature_column.indicator_column."
            )
    return ordered


def linear_columns(argument: str, columns: Any) -> tuple[Column, ...]:
    """Returns columns for a linear model, in the order of their names.

    Raises:
      ValueError: There is none, two have one name, or one is a sequence of vectors.
      TypeError: One is not a feature column.
    """
    ordered = _ordered(argument, columns)
    for column in ordered:
        if is_sequence(column) and (is_dense(column) or not is_categorical(column)):
            raise ValueError(
                f"Cannot use the sequence column {column.name!r} of {argument} in a linear model: "
                "it gives a vector for each element of a sequence. Take a categorical or a dense "
                "column."
            )
    return ordered


def _ordered(argument: str, columns: Any) -> tuple[Column, ...]:
    if isinstance(columns, (Mapping, str)):
        raise ValueError(f"{argument} must be a list of feature columns, got {columns!r}.")
    if _is_column(columns) or not isinstance(columns, Iterable):
        columns = [columns]
    ordered = tuple(columns)
    for column in ordered:
        if not _is_column(column):
            raise ArgumentTypeError(
                f"{argument} must hold feature columns, got {column!r}. Make them with "
                "tf.feature_column, such as tf.feature_column.numeric_column(key)."
            )
    if not ordered:
        raise ValueError(f"{argument} must hold at least one feature column, got none.")
    counts = collections.Counter(str(column.name) for column in ordered)
    doubles = sorted(name for name, count in counts.items() if count > 1)
    if doubles:
        raise ValueError(
            f"{argument} must hold columns of different names, got {doubles} more than once. A "
            "column's name comes from its key: leave out the copy, or rename the feature."
        )
    return tuple(sorted(ordered, key=lambda column: str(column.name)))


def _is_column(value: Any) -> bool:
    kinds = (is_dense, is_categorical, is_sequence, is_shared_v1)
    return hasattr(value, "name") and any(kind(value) for kind in kinds)
