"""Gradient accumulation: several batches, one update.

Variables hold the total of the gradients of the last steps. Once in `accumulate_steps` steps the
optimizer applies the totals, and they start again at zero. The totals are saved in checkpoints, so
a run that stops between two updates resumes exactly. `TowerOptimizer` accumulates gradients that
are already summed over towers.

Workers without parameter servers each accumulate what they compute, and send the totals once in an
update. No checkpoint of the chief could have the totals of the others, so they are not saved: a run
that stops between two updates resumes after the first of the two.
"""

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.graph_ops.conditional import run_if
from replicate.protocols import OPTIONAL_STATE

v1 = tf.compat.v1

GradientsAndVariables: TypeAlias = Sequence[tuple[Gradient, Variable]]


@typing.final
@dataclasses.dataclass(frozen=True)
class PendingUpdate:
    """Gradients of an update, and the steps in which it is due.

    Attributes:
      gradients_and_variables: Gradients of the step, or totals over several steps.
      due: Boolean scalar: True in steps that end with the update; None: all do.
      totals: Variables to set to zero after the update.
    """

    gradients_and_variables: GradientsAndVariables
    due: Tensor | None
    totals: Sequence[Variable] = ()

    def run(self, apply: Callable[[GradientsAndVariables], Operation]) -> Operation:
        """Returns an operation that makes the update, by `apply`, in the steps when it is due."""
        return run_if(self.due, lambda: self._reset_after(apply(self.gradients_and_variables)))

    def _reset_after(self, applied: Operation) -> Operation:
        if not self.totals:
            return applied
        with v1.control_dependencies([applied]):
            zeros = [_set_to_zero(total) for total in self.totals]
        with v1.device(CPU):
            return v1.group(*zeros)


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientAccumulation:
    """Accumulates the gradients of several steps into one update.

    Attributes:
      steps: Steps from one update to the next, ≥ 1.
      average: True for the mean over the steps, False for their sum.
      accumulate_statistics: Makes an operation that accumulates other statistics of a step's batch
        which the update needs; None: there are none.
      is_local: True if the totals are those of one worker of several.
    """

    steps: int
    average: bool
    accumulate_statistics: Callable[[], Operation] | None = None
    is_local: bool = False

    def add(
        self, gradients_and_variables: GradientsAndVariables, accepted: Tensor | None
    ) -> PendingUpdate:
        """Adds the gradients of a step, if it is accepted, to the totals, which are dense.

        Returns:
          The update with the totals. With one step, the update of that step's gradients.
        """
        if self.steps == 1:
            return PendingUpdate(gradients_and_variables, accepted)
        variables = [variable for _, variable in gradients_and_variables]
        with v1.variable_scope(None, default_name="gradient_accumulation"):
            with v1.device(CPU):
                step_count = self._zeros("steps", [], tf.int64)
            totals = [self._total_of(variable) for variable in variables]
        if not self.is_local:
            v1.add_to_collection(OPTIONAL_STATE, _AccumulationState((step_count, *totals)))
        gradients = [gradient for gradient, _ in gradients_and_variables]
        added = run_if(accepted, lambda: self._add_step(totals, gradients, step_count))
        with v1.control_dependencies([added]):
            with v1.device(CPU):
                complete = tf.equal(step_count.read_value() % self.steps, 0)
                due = complete if accepted is None else tf.logical_and(accepted, complete)
            values = [_value_of(total) for total in totals]
        return PendingUpdate(list(zip(values, variables, strict=True)), due, totals)

    def _total_of(self, variable: Variable) -> Variable:
        with v1.colocate_with(variable):
            return self._zeros(variable.op.name, variable.shape, variable.dtype.base_dtype)

    def _zeros(self, name: str, shape: Any, dtype: tf.DType) -> Variable:
        keys = [v1.GraphKeys.LOCAL_VARIABLES] if self.is_local else None
        zeros = tf.zeros_initializer()
        return v1.get_variable(name, shape, dtype, zeros, trainable=False, collections=keys)

    def _add_step(
        self, totals: Sequence[Variable], gradients: Sequence[Gradient], step_count: Variable
    ) -> Operation:
        scale = 1.0 / self.steps if self.average else 1.0
        added = [
            _add(total, gradient, scale) for total, gradient in zip(totals, gradients, strict=True)
        ]
        if self.accumulate_statistics is not None:
            added.append(self.accumulate_statistics())
        with v1.device(CPU):
            return v1.group(*added, v1.assign_add(step_count, 1))


@typing.final
@dataclasses.dataclass(frozen=True)
class _AccumulationState:
    """The totals as state that a checkpoint may lack: those of several workers have none.

    Attributes:
      kept: The count of steps and the totals.
    """

    kept: tuple[Variable, ...]

    def get_name(self) -> str:
        """Returns the name of the state, for messages."""
        return "TowerOptimizer(accumulate_steps=…)"

    def variables(self) -> list[Variable]:
        """Returns the variables."""
        return list(self.kept)


def _add(total: Variable, gradient: Gradient, scale: float) -> Operation:
    values = gradient_values(gradient)
    with v1.device(values.device):
        part = with_values(gradient, values * scale)
    if isinstance(part, tf.IndexedSlices):
        return v1.scatter_add(total, part.indices, part.values)
    return v1.assign_add(total, part)


def _value_of(total: Variable) -> Tensor:
    with v1.device(total.device):
        return tf.identity(total.read_value())


def _set_to_zero(total: Variable) -> Operation:
    with v1.device(total.device):
        return v1.assign(total, tf.zeros(total.shape, total.dtype))
