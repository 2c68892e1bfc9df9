"""Steps that are left out because a loss or a gradient is NaN or infinite.

Owns the verdict on a step, made from what all towers computed and before anything is applied; the
two counters, which are part of checkpoints; and the name of what was found first, by which the
runtime tells the user. Leaving the step out is `TowerOptimizer`'s business; the moving averages of
batch normalization are `BatchStatistics`'.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.errors import failure_unless

v1 = tf.compat.v1

SKIPPING = ("replicate", "skipping")
"""Key of the `NonFiniteSkipping` of a graph's optimizers. Not a string: never exported."""


class Watched(NamedTuple):
    """A loss or gradient of one tower.

    Attributes:
      is_finite: Boolean scalar: whether all its numbers are.
      description: What it is, to begin a sentence with: "The gradient of w".
      is_loss: Whether it is a loss.
    """

    is_finite: Tensor
    description: str
    is_loss: bool


def watched(values: Tensor, description: str, is_loss: bool = False) -> Watched:
    """Watches a tensor of floating-point numbers, on the device that is active."""
    return Watched(tf.reduce_all(tf.math.is_finite(values)), description, is_loss)


class NonFiniteSkipping:
    """The state of `skip_nonfinite` for one call of `apply_gradients`.

    Attributes:
      allowed: How many steps in a row may be skipped.
      total: Variable, int64 []: steps skipped so far.
      in_a_row: Variable, int64 []: steps skipped since one that was not.
      cause: int64 []: which entry of `descriptions` made this step be skipped, counted from 1; 0
        in a step that is not.
      descriptions: What is watched.
    """

    cause: Tensor
    descriptions: tuple[str, ...]

    def __init__(self, allowed: int):
        """Makes the variables and their summaries.

        Args:
          allowed: ≥ 1.
        """
        self.allowed = allowed
        with v1.variable_scope(None, default_name="skip_nonfinite"):
            self.total = _counter("skipped_steps")
            self.in_a_row = _counter("skipped_in_a_row")
            v1.summary.scalar("skipped", self.total)
            v1.summary.scalar("in_a_row", self.in_a_row)

    def judge(self, entries: Sequence[Watched], may_overflow: Tensor | None = None) -> Tensor:
        """Returns whether the step may be applied: a boolean scalar; enters the collection.

        Its evaluation fails with `NonFiniteError` where too many steps in a row cannot.

        Args:
          entries: What all towers watch, at least one.
          may_overflow: Boolean scalar: whether a gradient that is not finite under a loss that is
            shows only that the loss is scaled too far, which is not counted here.
        """
        losses_first = sorted(entries, key=lambda entry: not entry.is_loss)
        self.descriptions = tuple(entry.description for entry in losses_first)
        finite = tf.stack([entry.is_finite for entry in losses_first])
        accepted = tf.reduce_all(finite)
        first = tf.argmin(tf.cast(finite, tf.int32), output_type=tf.int64)
        skipped = tf.logical_not(accepted)
        if may_overflow is not None:
            is_gradient = first >= sum(entry.is_loss for entry in entries)
            overflow = tf.logical_and(may_overflow, is_gradient)
            skipped = tf.logical_and(skipped, tf.logical_not(overflow))
        self.cause = tf.where(skipped, first + 1, tf.zeros_like(first))
        v1.add_to_collection(SKIPPING, self)
        with v1.control_dependencies([self._fails_after_too_many(first, skipped)]):
            return tf.identity(accepted)

    @property
    def skipped(self) -> Tensor:
        """Whether this step is skipped and counted here, a boolean scalar."""
        return self.cause > 0

    def count(self, accepted: Tensor) -> Operation:
        """Returns the operation that counts the step.

        Args:
          accepted: What `judge` returned. A step that is neither accepted nor counted, because
            the scaled loss overflowed, leaves both counters alone.
        """
        in_a_row = self.in_a_row.read_value()
        others = tf.where(accepted, tf.zeros_like(in_a_row), in_a_row)
        return v1.group(
            v1.assign_add(self.total, tf.cast(self.skipped, tf.int64)),
            v1.assign(self.in_a_row, tf.where(self.skipped, in_a_row + 1, others)),
        )

    def _fails_after_too_many(self, first: Tensor, skipped: Tensor) -> Operation:
        what = tf.gather(tf.constant(self.descriptions), first)
        end = (
            f" is NaN or infinite, after skip_nonfinite={self.allowed} skipped steps in a row; no "
            "variable was changed in this step. Look for a learning rate that is too high, "
            "log(0), or bad input."
        )
        too_many = tf.logical_and(skipped, self.in_a_row.read_value() >= self.allowed)
        text = tf.strings.join([what, end])
        return failure_unless(tf.logical_not(too_many), text)


def _counter(name: str) -> Variable:
    return v1.get_variable(name, [], tf.int64, tf.zeros_initializer(), trainable=False)
