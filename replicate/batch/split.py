"""Splitting one batch into a shard for each tower.

Shards hold consecutive rows, in the order of the batch. Their sizes differ by at most one row, and
the larger ones come first. A replicated `model_fn` splits each batch once, on the consolidation
device. The functions that count, pad and cut rows take the three kinds of tensors in a batch:
dense, sparse and ragged.
"""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.batch.nests import flatten, keys_in_order, pack_like
from replicate.calling import check_choice
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1

Uneven: TypeAlias = Literal["error", "pad", "weighted"]
"""Treatment of a batch that the number of towers does not divide."""


@dataclasses.dataclass(frozen=True)
class Splitting:
    """Settings for splitting batches.

    Attributes:
      num_shards: Number of towers, ≥ 1.
      uneven: "error" refuses a batch that `num_shards` does not divide; "pad" repeats its last row
        until it does; "weighted" makes shards of different sizes, some of them possibly empty, each
        with its share of the batch as weight.
      unsplit: Keys of dicts in features and labels whose values every tower gets whole.
    """

    num_shards: int
    uneven: Uneven = "error"
    unsplit: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
          ValueError: `uneven` is unknown.
        """
        check_choice("uneven", self.uneven, Uneven)


class Shard(NamedTuple):
    """Part of the batch that one tower computes on.

    Attributes:
      features: Features in the structure of the whole batch, each Tensor [rows of the shard, ...].
      labels: Labels in the structure of the whole batch, or None.
      weight: Rows of the shard ÷ rows of the batch: a float if all shards are equal, else a Tensor,
        float64 [].
    """

    features: Nest
    labels: Nest
    weight: Tensor


def split_batch(features: Nest, labels: Nest, splitting: Splitting) -> list[Shard]:
    """Splits one input batch along axis 0.

    Args:
      features: Tensor, array, SparseTensor or RaggedTensor [batch, ...], or a nest of them in
        dicts, tuples, lists and dataclasses. A list of numbers or strings is an array.
      labels: As `features`, possibly of another batch size, or None.
      splitting: Settings. With one shard, the result is the batch itself, unchanged.

    Returns:
      The shards, in the order of the rows.

    Raises:
      ValueError: A tensor has no batch axis, or the number of towers does not divide the batch. If
        the batch size is known only when the step runs, the step fails with the same text.
      TypeError: A value cannot be converted to a tensor.
    """
    if splitting.num_shards == 1:
        return [Shard(features, labels, 1.0)]
    features, labels = _literals_to_arrays(features), _literals_to_arrays(labels)
    with v1.name_scope("split_inputs"):
        feature_shards = _split_nest("features", features, splitting)
        label_shards = _split_nest("labels", labels, splitting)
        weights = _weights(batch_rows(features, splitting), splitting)
    return [Shard(*parts) for parts in zip(feature_shards, label_shards, weights, strict=True)]


def batch_rows(features: Nest, splitting: Splitting) -> Tensor:
    """Returns the rows of the first split tensor of a batch: an int if known, else a scalar Tensor.

    Raises:
      ValueError: No tensor of the features is split.
    """
    features = _literals_to_arrays(features)
    for path, leaf in _leaves("features", features):
        if leaf is None or not splitting.unsplit.isdisjoint(path):
            continue
        if _is_record(leaf):
            return batch_rows(vars(leaf), splitting)
        return rows_of(leaf)
    raise ValueError(
        "Cannot split the batch: features hold nothing that has a batch axis"
        + (f" besides unsplit={sorted(splitting.unsplit)}." if splitting.unsplit else ".")
    )


def _split_nest(what: str, nest: Nest, splitting: Splitting) -> list[Nest]:
    parts = [_split_leaf(path, leaf, splitting) for path, leaf in _leaves(what, nest)]
    return [
        pack_like(nest, [part[shard] for part in parts]) for shard in range(splitting.num_shards)
    ]


def _split_leaf(path: tuple[Any, ...], leaf: Any, splitting: Splitting) -> list[Any]:
    if leaf is None or not splitting.unsplit.isdisjoint(path):
        return [leaf] * splitting.num_shards
    if _is_record(leaf):
        fields = _split_nest(_name(path), vars(leaf), splitting)
        return [dataclasses.replace(leaf, **changes) for changes in fields]
    if not isinstance(leaf, tf.SparseTensor | tf.RaggedTensor):
        leaf = v1.convert_to_tensor(leaf)
        if leaf.shape.rank == 0:
            raise ValueError(
                f"Cannot split the batch for {splitting.num_shards} towers: {_name(path)} is a "
                f"scalar. Everything in features and labels needs a batch axis in front; name what "
                f"every tower should get whole in unsplit=[…], or pass constants through params."
            )
    rows = rows_of(leaf)
    strict = splitting.uneven == "error" and not isinstance(leaf, tf.SparseTensor)
    with v1.control_dependencies(_row_checks(_name(path), rows, splitting.num_shards, strict)):
        if splitting.uneven == "pad":
            leaf = padded(leaf, rows, splitting.num_shards)
            rows = rows_of(leaf)
        equal = splitting.uneven != "weighted"
        return cut(leaf, rows, splitting.num_shards, equal)


def _row_checks(name: str, rows: Tensor, count: int, strict: bool) -> list[Tensor]:
    """Checks that the batch is not empty and, if strict, that `count` divides it.

    Returns:
      Operations that check when the step runs, if the rows are not known before.
    """
    problem = "which is an empty batch"
    if strict:
        problem = (
            f"which {count} does not divide; the batch size must be divisible by the number of "
            f"towers. Use batches of a multiple of {count} rows (drop_remainder=True in the input "
            f"pipeline), another number of devices, or uneven='weighted'"
        )
    text = f"Cannot split the batch for {count} towers: {name} has {{}} rows, {problem}."
    if not isinstance(rows, int):
        accepted = rows > 0
        if strict:
            accepted &= tf.equal(rows % count, 0)
        return [batch_check(accepted, text, rows)]
    if rows == 0 or (strict and rows % count):
        raise ValueError(text.format(rows))
    return []


def _weights(rows: Tensor, splitting: Splitting) -> list[Tensor]:
    """Returns each shard's share of the batch."""
    count = splitting.num_shards
    if splitting.uneven != "weighted" or (isinstance(rows, int) and rows % count == 0):
        return [1.0 / count] * count
    total = tf.cast(rows, tf.float64)
    return [tf.cast(size, tf.float64) / total for size in shard_sizes(rows, count)]


def _literals_to_arrays(nest: Nest) -> Nest:
    """Converts lists of numbers or strings to arrays: they are data, not structure."""
    if isinstance(nest, dict):
        return {key: _literals_to_arrays(value) for key, value in nest.items()}
    if isinstance(nest, list):
        leaves = flatten(nest)
        if leaves and all(isinstance(leaf, int | float | str | bytes) for leaf in leaves):
            return np.asarray(nest)
    return nest


def _is_record(leaf: Any) -> bool:
    """Returns True for a dataclass instance, which `tf.nest` treats as a leaf."""
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)


def _leaves(what: str, nest: Nest) -> list[tuple[tuple[Any, ...], Any]]:
    """Returns (path, leaf) pairs in the order of `flatten`."""
    leaves = flatten(nest)
    paths = list(_paths((what,), nest))
    if len(paths) != len(leaves):  # A type that tf.nest opens by its own protocol.
        paths = [(what, index) for index in range(len(leaves))]
    return list(zip(paths, leaves, strict=True))


def _paths(path: tuple[Any, ...], nest: Nest) -> list[tuple[Any, ...]]:
    if isinstance(nest, Mapping):
        return [leaf for key in keys_in_order(nest) for leaf in _paths((*path, key), nest[key])]
    if isinstance(nest, list | tuple):
        keys: Callable[[Any], Any] = getattr(nest, "_fields", range(len(nest))).__getitem__
        return [
            leaf for index, value in enumerate(nest) for leaf in _paths((*path, keys(index)), value)
        ]
    return [path]


def _name(path: tuple[Any, ...]) -> str:
    return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:])


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
