"""Look-up of the rows of a table by the ids of a categorical column.

An example has any number of ids, and its rows are combined. If the shape of the ids shows that no
example has more than one, the row is gathered: the same value and gradient, and an operation that
K-FAC knows.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import is_whole

v1 = tf.compat.v1


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
