"""Steps that are skipped because a loss or gradient is NaN or infinite.

Owns the decision about a step, its two counters, which are saved in checkpoints, and the name of
the first tensor that was not finite, which the runtime logs. `acceptance` skips the update;
`batch_norm.statistics` restores the moving averages of batch normalization.
"""

from collections.abc import Sequence

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Operation, Tensor, Variable
from replicate.graph_ops.checks import failure_unless
from replicate.graph_ops.finite import Watched, finite_flags, first_bad, not_finite
from replicate.protocols import Workers

v1 = tf.compat.v1

SKIPPING = ("replicate", "skipping")
"""Key of the `NonFiniteSkipping` of a graph's optimizers. Not a string: never exported."""


class NonFiniteSkipping:
    """The state of `skip_nonfinite` for one call of `apply_gradients`.

    Attributes:
      allowed: Number of steps in a row that may be skipped.
      total: Variable, int64 []: steps skipped so far.
      in_a_row: Variable, int64 []: steps skipped since the last step that was not.
      cause: Number of the entry of `descriptions` that is not finite, counted from 1; 0 in a step
        that is not skipped. int64 [].
      descriptions: Descriptions of the watched losses and gradients, of all workers.
    """

    cause: Tensor
    descriptions: tuple[str, ...]

    def __init__(self, allowed: int):
        self.allowed = allowed
        with v1.variable_scope(None, default_name="skip_nonfinite"):
            self.total = _counter("skipped_steps")
            self.in_a_row = _counter("skipped_in_a_row")
            v1.summary.scalar("skipped", self.total)
            v1.summary.scalar("in_a_row", self.in_a_row)

    def judge(
        self,
        entries: Sequence[Watched],
        may_overflow: Tensor | None = None,
        workers: Workers | None = None,
    ) -> Tensor:
        """Returns True if the step may be applied, a boolean scalar.

        Adds this object to the collection `SKIPPING`. Evaluating the result raises `NonFiniteError`
        after too many skipped steps in a row.

        Args:
          entries: Watched losses and gradients of all towers, at least one.
          may_overflow: Boolean scalar, with a loss scale: True if the scale can shrink. Then a
            gradient that is not finite under a finite loss is an overflow, which is not counted.
          workers: Workers that must agree on the losses and gradients of each, or None.
        """
        finite, self.descriptions = finite_flags(entries)
        of_each = None if workers is None else workers.flags_of_each(finite)
        finite = finite if of_each is None else tf.reduce_all(of_each, axis=0)
        accepted = tf.reduce_all(finite)
        first = found = first_bad(finite)
        if workers is not None and of_each is not None:
            found += len(self.descriptions) * first_bad(of_each[:, first])
            self.descriptions = _of_each_worker(self.descriptions, workers.names)
        skipped = tf.logical_not(accepted)
        if may_overflow is not None:
            is_gradient = first >= sum(
                len(entry.descriptions) for entry in entries if entry.is_loss
            )
            overflow = tf.logical_and(may_overflow, is_gradient)
            skipped = tf.logical_and(skipped, tf.logical_not(overflow))
        self.cause = tf.where(skipped, found + 1, tf.zeros_like(found))
        v1.add_to_collection(SKIPPING, self)
        with v1.control_dependencies([self._fails_after_too_many(skipped, found)]):
            return tf.identity(accepted)

    @property
    def skipped(self) -> Tensor:
        """True if this step is skipped and counted, a boolean scalar."""
        return self.cause > 0

    def count(self, accepted: Tensor) -> Operation:
        """Returns the operation that counts the step by the result of `judge`.

        An overflow of the scaled loss, which is neither accepted nor counted, changes no counter.
        """
        in_a_row = self.in_a_row.read_value()
        others = tf.where(accepted, tf.zeros_like(in_a_row), in_a_row)
        return v1.group(
            v1.assign_add(self.total, tf.cast(self.skipped, tf.int64)),
            v1.assign(self.in_a_row, tf.where(self.skipped, in_a_row + 1, others)),
        )

    def _fails_after_too_many(self, skipped: Tensor, first: Tensor) -> Operation:
        row = f", after skip_nonfinite={self.allowed} skipped steps in a row"
        too_many = tf.logical_and(skipped, self.in_a_row.read_value() >= self.allowed)
        return failure_unless(tf.logical_not(too_many), not_finite(self.descriptions, first, row))


def _of_each_worker(descriptions: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Returns the descriptions of all workers; sums over workers belong to none of them."""
    return tuple(
        text if text.startswith("Summed") else f"On {name}, {text[0].lower()}{text[1:]}"
        for name in names
        for text in descriptions
    )


def _counter(name: str) -> Variable:
    with v1.device(CPU):
        return v1.get_variable(name, [], tf.int64, tf.zeros_initializer(), trainable=False)
