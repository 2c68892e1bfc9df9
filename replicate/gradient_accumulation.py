"""Gradient accumulation: several batches, one update.

The gradients of each step are added to variables of their own, and the optimizer sees their total
once in so many steps. The totals are part of checkpoints, so that a run that stops between two
updates goes on exactly. Used by `TowerOptimizer`, after the gradients of all towers were summed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.conditional import only_if

v1 = tf.compat.v1


class GradientAccumulation:
    """Totals of the gradients since the last update.

    Attributes:
      due: Boolean scalar: whether this step ends with an update. Evaluating it adds the step's
        gradients.
      totals: (total, variable) pairs, to be read when an update is due.
    """

    def __init__(
        self,
        gradients_and_variables: Sequence[tuple[Gradient, Variable]],
        steps: int,
        average: bool,
        accepted: Tensor | None = None,
        accumulate_statistics: Callable[[], Operation] | None = None,
    ):
        """Makes the totals and the operations that add to them.

        Args:
          gradients_and_variables: Gradients of one step. Sparse ones are added to dense totals.
          steps: Steps from one update to the next, ≥ 1.
          average: Whether the total is the mean over the steps, or their sum.
          accepted: Boolean scalar: whether this step counts at all; None: always.
          accumulate_statistics: Makes an operation that adds up what else the update will need of
            this step's batch.
        """
        variables = [variable for _, variable in gradients_and_variables]
        with v1.variable_scope(None, default_name="gradient_accumulation"):
            counted = _zeros("steps", [], tf.int64)
            self._slots = [_total_of(variable) for variable in variables]
        scale = 1.0 / steps if average else 1.0

        def add() -> Operation:
            added = [
                _add(total, gradient, scale)
                for total, (gradient, _) in zip(self._slots, gradients_and_variables, strict=True)
            ]
            if accumulate_statistics is not None:
                added.append(accumulate_statistics())
            return v1.group(*added, v1.assign_add(counted, 1))

        with v1.control_dependencies([add() if accepted is None else only_if(accepted, add)]):
            complete = tf.equal(counted.read_value() % steps, 0)
            self.due = complete if accepted is None else tf.logical_and(accepted, complete)
            totals = [tf.identity(total.read_value()) for total in self._slots]
        self.totals = list(zip(totals, variables, strict=True))

    def reset(self) -> Operation:
        """Returns the operation that sets the totals to zero."""
        zeros = [v1.assign(total, tf.zeros(total.shape, total.dtype)) for total in self._slots]
        return v1.group(*zeros)


def _total_of(variable: Variable) -> Variable:
    with v1.colocate_with(variable):
        return _zeros(variable.op.name, variable.shape, variable.dtype.base_dtype)


def _zeros(name: str, shape: Any, dtype: tf.DType) -> Variable:
    return v1.get_variable(name, shape, dtype, tf.zeros_initializer(), trainable=False)


def _add(total: Variable, gradient: Gradient, scale: float) -> Operation:
    if isinstance(gradient, tf.IndexedSlices):
        return v1.scatter_add(total, gradient.indices, gradient.values * scale)
    return v1.assign_add(total, gradient * scale)
