"""Rows of a batch: functions that count, pad and split them.

Each function takes the three kinds of tensors in a batch: dense, sparse and ragged. Used by
`split.py` only.
"""

from itertools import accumulate

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def rows_of(leaf: Tensor) -> Tensor:
    """Returns the rows of a leaf [rows, ...]: an int if known, else an integer scalar Tensor."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows()
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    tensor = v1.convert_to_tensor(leaf)
    static = tf.compat.dimension_value(tensor.shape[0]) if tensor.shape.rank else None
    return v1.shape(tensor)[0] if static is None else static


def shard_sizes(rows: Tensor, num_shards: int) -> list[Tensor]:
    """Returns the rows of each shard. They differ by at most one; the larger shards come first."""
    return [(rows + num_shards - 1 - shard) // num_shards for shard in range(num_shards)]


def padded(leaf: Tensor, rows: Tensor, multiple: int) -> Tensor:
    """Adds copies of the last row until the number of rows, now `rows_of(leaf)`, is a multiple."""
    wanted = (rows + multiple - 1) // multiple * multiple
    if isinstance(leaf, tf.SparseTensor):
        return _with_copies_of_last_row(leaf, rows, wanted)
    return tf.gather(leaf, tf.minimum(tf.range(wanted), rows - 1))


def cut(leaf: Tensor, rows: Tensor, num_shards: int, equal: bool) -> list[Tensor]:
    """Cuts between rows, into shards of `shard_sizes`.

    Static shapes are kept if the shards are `equal`: if `num_shards` divides the rows.
    """
    sizes = shard_sizes(rows, num_shards)
    if isinstance(leaf, tf.SparseTensor | tf.RaggedTensor):
        take = _sparse_rows if isinstance(leaf, tf.SparseTensor) else _ragged_rows
        ends = list(accumulate(sizes))
        return [take(leaf, end - size, size) for size, end in zip(sizes, ends, strict=True)]
    if equal or (isinstance(rows, int) and rows % num_shards == 0):
        # The identity makes the split of a constant wait for the checks of the rows, too.
        return list(tf.split(tf.identity(leaf), num_shards, name="split"))
    return list(tf.split(tf.identity(leaf), sizes, num=num_shards, name="split"))


def _with_copies_of_last_row(leaf: Tensor, rows: Tensor, wanted: Tensor) -> Tensor:
    """Lengthens a SparseTensor of `rows` rows to `wanted` rows; its entries stay in order."""
    is_in_last = tf.equal(leaf.indices[:, 0], rows - 1)
    columns = tf.boolean_mask(leaf.indices[:, 1:], is_in_last)
    values = tf.boolean_mask(leaf.values, is_in_last)
    copies = wanted - rows
    copy_rows = tf.repeat(tf.range(rows, wanted), tf.shape(values)[0])
    indices = tf.concat([copy_rows[:, tf.newaxis], tf.tile(columns, [copies, 1])], axis=1)
    return tf.SparseTensor(
        tf.concat([leaf.indices, indices], axis=0),
        tf.concat([leaf.values, tf.tile(values, [copies])], axis=0),
        tf.concat([[wanted], leaf.dense_shape[1:]], axis=0),
    )


def _ragged_rows(leaf: Tensor, start: Tensor, size: Tensor) -> Tensor:
    return leaf[start : start + size]


def _sparse_rows(leaf: Tensor, start: Tensor, size: Tensor) -> Tensor:
    """Takes rows of a SparseTensor. Unlike `sparse_split`, it can take no rows at all."""
    others = leaf.dense_shape[1:]
    starts = tf.concat([[start], tf.zeros_like(others)], axis=0)
    return tf.sparse.slice(leaf, starts, tf.concat([[size], others], axis=0))
