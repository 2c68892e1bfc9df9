"""Search for losses and gradients that are NaN or infinite.

If any element of a tensor is NaN or infinite, then so is the sum of its elements. So each tower
sends one number per tensor to the CPU. A sum that overflows counts as infinite.
`gradients.acceptance` decides if the step then fails or is skipped.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Operation, Tensor
from replicate.graph_ops.checks import failure_unless
from replicate.graph_ops.conditional import run_unless
from replicate.graph_ops.described import DescribedOperations

v1 = tf.compat.v1

_MANY = 4
"""Smallest number of vectors of one length that are stacked before their sums are taken."""

_ADVICE = "Look for a learning rate that is too high, log(0), or bad input."


class Watched(NamedTuple):
    """Losses or gradients of one tower.

    Attributes:
      totals: Sum of the elements of each tensor, [tensors], on the tower's device.
      descriptions: Names of the tensors that can begin a sentence: "The gradient of w".
      is_loss: True for losses, False for gradients.
    """

    totals: Tensor
    descriptions: tuple[str, ...]
    is_loss: bool


def watched(values: Tensor, description: str, is_loss: bool = False) -> Watched:
    """Watches a floating-point tensor on the current device. The description begins a sentence."""
    (entry,) = watched_all([(values, description)])
    return entry._replace(is_loss=is_loss)


def watched_all(described: Iterable[tuple[Tensor, str]]) -> list[Watched]:
    """Watches gradients, with their descriptions, on the current device: one entry per type."""
    by_type: dict[tf.DType, list[tuple[Tensor, str]]] = {}
    for given, description in described:
        is_short = given.dtype.size < tf.float32.size
        values = tf.cast(given, tf.float32) if is_short else given
        by_type.setdefault(values.dtype, []).append((values, description))
    return [_watched_of_one_type(same) for same in by_type.values()]


def _watched_of_one_type(described: Sequence[tuple[Tensor, str]]) -> Watched:
    """Watches tensors of one type with few operations.

    Many short vectors of one length, such as biases, are stacked: that is faster than an operation
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
    """Sums the elements of each tensor. Tensors of one rank share the constant of axes."""
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
    """Finds out on the CPU which watched tensors, at least one, are finite.

    Returns:
      A vector of booleans [tensors], and the descriptions in the same order: losses first.
    """
    groups: dict[object, list[Watched]] = {}
    for entry in sorted(entries, key=lambda entry: not entry.is_loss):
        groups.setdefault((entry.is_loss, entry.totals.dtype), []).append(entry)
    descriptions = (entry.descriptions for same in groups.values() for entry in same)
    with v1.device(CPU):
        flags = [
            tf.math.is_finite(_joined([entry.totals for entry in same])) for same in groups.values()
        ]
        return _joined(flags), tuple(itertools.chain.from_iterable(descriptions))


def _joined(vectors: Sequence[Tensor]) -> Tensor:
    return vectors[0] if len(vectors) == 1 else tf.concat(vectors, axis=0)


def require_finite(
    entries: Sequence[Watched],
    agreed: Callable[[Tensor], Tensor] | None = None,
    circumstances: Callable[[], Tensor | str] = str,
) -> Operation:
    """Returns an operation that fails with `NonFiniteError` unless all entries are finite.

    Args:
      entries: Watched tensors, at least one.
      agreed: Function from a vector of booleans to those that all workers agree on; None for this
        process alone.
      circumstances: Makes words to add to the message, with a leading comma. It may add operations,
        which run in a step that fails.
    """
    flags, descriptions = finite_flags(entries)
    flags = flags if agreed is None else agreed(flags)

    def fail() -> Operation:
        text = not_finite(descriptions, first_bad(flags), circumstances())
        return failure_unless(tf.constant(value=False), text)

    with v1.device(CPU):
        return run_unless(tf.reduce_all(flags), fail)


def first_bad(flags: Tensor) -> Tensor:
    """Returns the index of the first false flag, an int64 scalar."""
    return tf.argmin(tf.cast(flags, tf.int32), output_type=tf.int64)


def not_finite(
    descriptions: Sequence[str], index: Tensor, circumstances: Tensor | str = ""
) -> Tensor:
    """Returns the error message for the tensor at an index that is not finite, a string scalar.

    `circumstances` are words to add to the message, with a leading comma.
    """
    description = tf.gather(tf.constant(descriptions), index)
    end = f"; no variable was changed in this step. {_ADVICE}"
    return tf.strings.join([description, " is NaN or infinite", circumstances, end])
