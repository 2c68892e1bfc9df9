"""Tensors of feature columns: the dense vector of a column, with errors that name the column."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.canned.columns.column_cache import ColumnCache, MissingFeatureError
from replicate.canned.columns.column_kinds import Column, scope_name
from replicate.canned.columns.column_lookup import look_up
from replicate.canned.columns.column_state import ColumnState
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import is_whole
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


class DenseValue(NamedTuple):
    """Dense vector of a column, [batch, elements], and the record of the embedding behind it."""

    values: Tensor
    layers: list[Layer]


@final
class ColumnTensors:
    """Features, and the variables of columns, in one graph."""

    def __init__(self, features: Mapping[str, Any]):
        """Keeps features by key, as `ColumnCache` takes them.

        Raises:
          ValueError: features is not a dict.
        """
        self._cache = ColumnCache(features)
        self._state = ColumnState()

    def create_variables(self, column: Column) -> None:
        """Makes the column's own variables in the current variable scope."""
        column.create_state(self._state)

    def create_weights(self, column: Column, rows: int, units: int) -> Variable:
        """Makes weights [rows, units] of zeros for the column in the current variable scope."""
        return self._state.create_variable(
            column, "weights", [rows, units], initializer=v1.zeros_initializer()
        )

    def dense(self, column: Column) -> DenseValue:
        """Returns the vector of a dense column.

        A table that several columns share is made, if none of them has made it, in the current
        variable scope.

        Raises:
          ValueError: A feature of the column is missing, or known to have another number of values
            for each example. In a graph an assertion checks it where it is not known.
        """
        elements = column.variable_shape.num_elements()
        with self._naming(column), v1.name_scope(scope_name(column)):
            if _is_plain_embedding(column):
                table = self._state.get_variable(column, "embedding_weights")
                if is_whole(table):
                    ids = column.categorical_column.get_sparse_tensors(self._cache, self._state)
                    rows = look_up(table, ids, column.combiner)
                    return DenseValue(rows.values, [rows.layer] if rows.layer else [])
            value = column.get_dense_tensor(self._cache, self._state)
            return DenseValue(_rows(column.name, value, elements), [])

    def ids_and_weights(self, column: Column) -> Any:
        """Returns the ids of a categorical column, and their weights: `id_tensor, weight_tensor`.

        Raises:
          ValueError: A feature of the column is missing.
        """
        with self._naming(column), v1.name_scope(scope_name(column)):
            return column.get_sparse_tensors(self._cache, self._state)

    @contextlib.contextmanager
    def _naming(self, column: Column) -> Iterator[None]:
        """Names the column in the error for a missing feature."""
        try:
            yield
        except MissingFeatureError as error:
            raise ValueError(
                f"Cannot compute feature column {column.name!r}: {error} Return the feature from "
                "input_fn, or take the column out of the estimator's columns."
            ) from None


def _rows(name: str, value: Tensor, elements: int) -> Tensor:
    """Returns what a column computed as [batch, elements]."""
    error = (
        f"Cannot compute feature column {name!r}: it takes {elements} values for each example. "
        "Give the column the shape of its feature, as in numeric_column(key, shape=[3]). Received "
    )
    found = value.shape[1:].num_elements() if value.shape.rank else None
    if found == elements:
        return tf.reshape(value, [-1, elements])
    if found is not None:
        raise ValueError(f"{error}shape {value.shape}.")
    shape = tf.shape(value)
    fits = tf.equal(tf.reduce_prod(shape[1:]), elements)
    with v1.control_dependencies([batch_check(fits, f"{error}shape {{}}.", shape)]):
        return tf.reshape(value, [-1, elements])


def _is_plain_embedding(column: Column) -> bool:
    """Returns True for an embedding of its own table that is used as it is."""
    return (
        hasattr(column, "tensor_name_in_ckpt")
        and column.ckpt_to_load_from is None
        and column.max_norm is None
    )
