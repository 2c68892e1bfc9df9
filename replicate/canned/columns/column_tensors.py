"""Tensors of feature columns: dense vectors and rows of tables, with errors that name the column.

An example has any number of ids, and its rows of a table are combined. If the shape of the ids
shows that no example has more than one, the row is gathered: the same value and gradient, and an
operation that K-FAC knows.

`ColumnState` is the state manager that the methods of feature columns ask for their variables and
lookup tables, in the graph and variable scope of the caller.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.canned.columns.column_cache import ColumnCache, MissingFeatureError
from replicate.canned.columns.column_kinds import Column, scope_name
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import is_whole
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


@final
class ColumnState:
    """State of the columns of one model, in one graph."""

    def __init__(self) -> None:
        self._variables: dict[tuple[Any, str], Variable] = {}
        self._resources: dict[tuple[Any, str], Any] = {}

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Sequence[int],
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Variable:
        """Makes or shares a variable of a column, in the current variable scope.

        `use_resource` is ignored: the kind of variable is that of the scope, as for all of a model.
        """
        del use_resource
        made = v1.get_variable(
            name, shape, dtype or tf.float32, initializer=initializer, trainable=trainable
        )
        self._variables[feature_column, name] = made
        return made

    def get_variable(self, feature_column: Any, name: str) -> Variable:
        """Returns a variable of a column.

        Raises:
          ValueError: The column made no variable of that name.
        """
        return _found(self._variables, feature_column, name, "variable")

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a lookup table of a column."""
        self._resources[feature_column, name] = resource

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Returns True if the column has such a lookup table."""
        return (feature_column, name) in self._resources

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """Returns a lookup table of a column.

        Raises:
          ValueError: The column made no table of that name.
        """
        return _found(self._resources, feature_column, name, "lookup table")


def _found(state: dict[tuple[Any, str], Any], column: Any, name: str, kind: str) -> Any:
    if (column, name) not in state:
        raise ValueError(
            f"Feature column {column.name!r} has no {kind} {name!r}. create_state of the column "
            "must make it before it is used."
        )
    return state[column, name]


class Rows(NamedTuple):
    """Combined rows of a table.

    Attributes:
      values: [batch, columns of the table].
      layer: Record of the look-up, None if it combines several rows.
    """

    values: Tensor
    layer: Layer | None


def look_up(table: Variable, ids_and_weights: Any, combiner: str) -> Rows:
    """Combines the rows of a table that each example's ids number.

    Args:
      table: Variable [ids, columns], which may be partitioned.
      ids_and_weights: Result of `get_sparse_tensors`: SparseTensors `id_tensor` of ids, of which
        negative ones are left out, and `weight_tensor` or None; [batch, …].
      combiner: "sum", "mean" or "sqrtn".

    Returns:
      The rows; zeros for an example without ids.
    """
    ids, weights = ids_and_weights.id_tensor, ids_and_weights.weight_tensor
    if weights is None and ids.shape.rank == 2 and ids.shape[1] == 1 and is_whole(table):
        return _gathered(table, ids)
    ids = _matrix(ids)
    weights = None if weights is None else _matrix(weights)
    return Rows(_combined(table, ids, weights, combiner), None)


def _gathered(table: Variable, ids: Any) -> Rows:
    """Gathers at most one row for each example: [batch, columns]."""
    dense = tf.sparse.to_dense(ids, default_value=-1)[:, 0]
    is_there = dense >= 0
    inputs = tf.where(is_there, dense, tf.zeros_like(dense))
    rows = tf.gather(table, inputs)
    values = tf.where(is_there[:, None], rows, tf.zeros_like(rows))
    return Rows(values, Layer("embedding", table, None, inputs, rows))


def _matrix(sparse: Any) -> Any:
    """Reshapes a SparseTensor to [batch, ids]."""
    if sparse.shape.rank == 2:
        return sparse
    shape = tf.shape(sparse, tf.int64)
    return tf.sparse.reshape(sparse, tf.stack([shape[0], tf.reduce_prod(shape[1:])]))


def _combined(table: Variable, ids: Any, weights: Any, combiner: str) -> Tensor:
    return v1.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner=combiner)


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

    def transformed(self, column: Column, elements: int) -> Tensor:
        """Returns what a column computes of its features, before it makes a vector of it.

        For a bucketized column these are the indices of the buckets, [batch, elements].

        Raises:
          ValueError: As `dense`.
        """
        with self._naming(column), v1.name_scope(scope_name(column)):
            return _rows(column.name, self._cache.get(column, self._state), elements)

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
