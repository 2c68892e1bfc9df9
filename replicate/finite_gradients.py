"""Whether the losses and gradients of all towers are finite, and which of them is not.

A NaN or an infinity anywhere makes the sum of a tensor's numbers one, too, so one number for each
tensor leaves the tower that computed it; a sum so large that it overflows counts as infinite. What
follows from the answer is decided elsewhere: `TowerOptimizer` ends the training or, by
`NonFiniteSkipping`, leaves the step out.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.conditional import only_if
from replicate.errors import failure_unless

v1 = tf.compat.v1

_ADVICE = "Look for a learning rate that is too high, log(0), or bad input."


class Watched(NamedTuple):
    """A loss or gradient of one tower.

    Attributes:
      total: Scalar, on the device of the tower: the sum of its numbers.
      description: What it is, to begin a sentence with: "The gradient of w".
      is_loss: Whether it is a loss.
    """

    total: Tensor
    description: str
    is_loss: bool


def watched(values: Tensor, description: str, is_loss: bool = False) -> Watched:
    """Watches a tensor of floating-point numbers, on the device that is active."""
    if values.dtype.size < tf.float32.size:
        values = tf.cast(values, tf.float32)
    return Watched(tf.reduce_sum(values), description, is_loss)


def finite_flags(entries: Iterable[Watched]) -> tuple[Tensor, tuple[Watched, ...]]:
    """Tells which entries are finite.

    Args:
      entries: At least one.

    Returns:
      A vector of booleans, and the entries in its order: losses first.
    """
    groups: dict[object, list[Watched]] = {}
    for entry in sorted(entries, key=lambda entry: not entry.is_loss):
        key = (entry.is_loss, entry.total.device, entry.total.dtype)
        groups.setdefault(key, []).append(entry)
    flags = []
    for same in groups.values():
        with v1.device(same[0].total.device):
            flags.append(tf.math.is_finite(tf.stack([entry.total for entry in same])))
    return tf.concat(flags, axis=0), tuple(entry for same in groups.values() for entry in same)


def require_finite(entries: Sequence[Watched]) -> Operation:
    """Returns an operation that fails with `NonFiniteError` unless all entries are finite."""
    flags, ordered = finite_flags(entries)

    def fail() -> Operation:
        return failure_unless(tf.constant(value=False), not_finite(ordered, first_bad(flags)))

    return only_if(tf.logical_not(tf.reduce_all(flags)), fail)


def first_bad(flags: Tensor) -> Tensor:
    """Returns the index of the first false flag, an int64 scalar."""
    return tf.argmin(tf.cast(flags, tf.int32), output_type=tf.int64)


def not_finite(entries: Sequence[Watched], index: Tensor, circumstances: str = "") -> Tensor:
    """Returns the message for an entry, a string scalar.

    Args:
      entries: What is watched.
      index: Of the entry that is not finite.
      circumstances: More to say of it; begins with a comma.
    """
    what = tf.gather(tf.constant([entry.description for entry in entries]), index)
    end = f" is NaN or infinite{circumstances}; no variable was changed in this step. {_ADVICE}"
    return tf.strings.join([what, end])
