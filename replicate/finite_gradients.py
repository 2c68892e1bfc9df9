"""Whether the losses and gradients of all towers are finite, and which of them is not.

A NaN or an infinity anywhere makes the sum of a tensor's numbers one, too, so one number for each
tensor leaves the tower that computed it; a sum so large that it overflows counts as infinite. What
follows from the answer is decided elsewhere: `TowerOptimizer` ends the training or, by
`NonFiniteSkipping`, leaves the step out.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.conditional import unless
from replicate.described_operations import DescribedOperations
from replicate.step_checks import failure_unless

v1 = tf.compat.v1

_MANY = 4
"""Vectors of one length that are joined before their numbers are added up."""

_ADVICE = "Look for a learning rate that is too high, log(0), or bad input."


class Watched(NamedTuple):
    """Losses or gradients of one tower.

    Attributes:
      totals: On the device of the tower, [tensors]: the sum of each one's numbers.
      descriptions: What they are, each to begin a sentence with: "The gradient of w".
      is_loss: Whether they are losses.
    """

    totals: Tensor
    descriptions: tuple[str, ...]
    is_loss: bool


def watched(values: Tensor, description: str, is_loss: bool = False) -> Watched:
    """Watches a tensor of floating-point numbers, on the device that is active."""
    (entry,) = watched_all([(values, description)])
    return entry._replace(is_loss=is_loss)


def watched_all(described: Iterable[tuple[Tensor, str]]) -> list[Watched]:
    """Watches gradients, each with its description, on the device that is active.

    Returns:
      One entry for each type of numbers.
    """
    by_type: dict[tf.DType, list[tuple[Tensor, str]]] = {}
    for given, description in described:
        is_short = given.dtype.size < tf.float32.size
        values = tf.cast(given, tf.float32) if is_short else given
        by_type.setdefault(values.dtype, []).append((values, description))
    return [_watched_of_one_type(same) for same in by_type.values()]


def _watched_of_one_type(described: Sequence[tuple[Tensor, str]]) -> Watched:
    """Watches tensors of one type, with as few operations as that takes.

    Biases and the like are short: joining many of one length takes less than starting an operation
    for each.
    """
    by_length: dict[int | None, list[tuple[Tensor, str]]] = {}
    for values, description in described:
        is_vector = values.shape.rank == 1
        length = values.shape.as_list()[0] if is_vector else None
        by_length.setdefault(length, []).append((values, description))
    alone = by_length.pop(None, [])
    joined = [same for same in by_length.values() if len(same) >= _MANY]
    alone += [entry for same in by_length.values() if len(same) < _MANY for entry in same]
    totals = [tf.stack(_sums([values for values, _ in alone]))] if alone else []
    totals += [tf.reduce_sum(tf.stack([values for values, _ in same]), axis=1) for same in joined]
    descriptions = tuple(description for same in (alone, *joined) for _, description in same)
    return Watched(_joined(totals), descriptions, is_loss=False)


def _sums(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Adds up the numbers of each tensor. Those of the same rank share the operand of axes."""
    axes: dict[int, Tensor] = {}
    operations, names = DescribedOperations(), []
    for number, tensor in enumerate(tensors):
        rank = tensor.shape.rank
        if rank is None:
            axis = tf.range(tf.rank(tensor))
        else:
            if rank not in axes:
                axes[rank] = tf.constant([*range(rank)], tf.int32, [rank])
            axis = axes[rank]
        inputs = [tensor, axis]
        names.append(operations.add("Sum", f"sum_{number}", inputs, T=tensor.dtype, Tidx=tf.int32))
    return operations.make([f"{name}:0" for name in names])


def finite_flags(entries: Iterable[Watched]) -> tuple[Tensor, tuple[str, ...]]:
    """Tells which of the tensors that are watched are finite.

    Args:
      entries: At least one.

    Returns:
      A vector of booleans, and the descriptions in its order: losses first.
    """
    groups: dict[object, list[Watched]] = {}
    for entry in sorted(entries, key=lambda entry: not entry.is_loss):
        groups.setdefault((entry.is_loss, entry.totals.dtype), []).append(entry)
    flags = [
        tf.math.is_finite(_joined([entry.totals for entry in same])) for same in groups.values()
    ]
    descriptions = (entry.descriptions for same in groups.values() for entry in same)
    return _joined(flags), tuple(itertools.chain.from_iterable(descriptions))


def _joined(vectors: Sequence[Tensor]) -> Tensor:
    return vectors[0] if len(vectors) == 1 else tf.concat(vectors, axis=0)


def require_finite(entries: Sequence[Watched]) -> Operation:
    """Returns an operation that fails with `NonFiniteError` unless all entries are finite."""
    flags, descriptions = finite_flags(entries)

    def fail() -> Operation:
        return failure_unless(tf.constant(value=False), not_finite(descriptions, first_bad(flags)))

    return unless(tf.reduce_all(flags), fail)


def first_bad(flags: Tensor) -> Tensor:
    """Returns the index of the first false flag, an int64 scalar."""
    return tf.argmin(tf.cast(flags, tf.int32), output_type=tf.int64)


def not_finite(descriptions: Sequence[str], index: Tensor, circumstances: str = "") -> Tensor:
    """Returns the message for a tensor, a string scalar.

    Args:
      descriptions: Of what is watched.
      index: Of the tensor that is not finite.
      circumstances: More to say of it; begins with a comma.
    """
    what = tf.gather(tf.constant(descriptions), index)
    end = f" is NaN or infinite{circumstances}; no variable was changed in this step. {_ADVICE}"
    return tf.strings.join([what, end])
