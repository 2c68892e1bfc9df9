"""Hooks about the end of a run: one that ends it at a step, one that checks that it can end."""

from typing import Any

import tensorflow as tf

from replicate._types import Operation
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1

_READERS = ("ReadVariableOp", "VarIsInitializedOp", "Identity", "IsVariableInitialized")
"""Types of the operations that read a variable and cannot write to it."""


class StopHook(ScheduledHook):
    """Ends a run at a step, or after a number of steps."""

    def __init__(
        self, readings: StepReadings, num_steps: int | None = None, last_step: int | None = None
    ):
        """Stores the limit; nothing ends the run if both limits are None.

        `num_steps` counts from the step at which the first session starts. `last_step` takes
        precedence.
        """
        self._readings = readings
        self._num_steps = num_steps
        self._last_step = last_step

    @property
    def is_done(self) -> bool:
        """True if the last step is reached."""
        return self._last_step is not None and self._readings.step >= self._last_step

    def next_run(self) -> NextRun:
        """Returns the last step, or never if there is no limit."""
        return NextRun() if self._last_step is None else NextRun(step=self._last_step)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Computes the last step from the step at which the first session starts."""
        del session, coord
        if self._last_step is None and self._num_steps is not None:
            self._last_step = self._readings.step + self._num_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops the run at the last step."""
        del run_values
        if self.is_done:
            run_context.request_stop()


class MovingStepCheck(ScheduledHook):
    """Refuses a graph in which nothing increases the global step.

    Hooks that begin before this one may still add the operation that does.
    """

    def next_run(self) -> NextRun:
        """Returns never: the hook has nothing to do at a step."""
        return NextRun()

    def begin(self) -> None:
        """Looks for an operation that writes to the global step.

        Raises:
          ValueError: Only initializers and savers write to it.
        """
        step = v1.train.get_global_step()
        holder = getattr(step, "handle", None)
        holder = step.op.outputs[0] if holder is None else holder
        others = (op for op in holder.consumers() if op.type not in _READERS)
        if all(op is step.initializer or _saves_or_restores(op) for op in others):
            raise ValueError(
                "Cannot train for a number of steps: nothing in the graph of model_fn and hooks "
                f"increases the global step, {step.name}, so that training would never end. Pass "
                "global_step=tf.train.get_global_step() to minimize or apply_gradients."
            )


def _saves_or_restores(op: Operation) -> bool:
    """Returns True for the operations of a saver."""
    if op.type in ("SaveV2", "SaveSlices"):
        return True
    sources = [tensor.op for tensor in op.inputs]
    sources += [tensor.op for each in sources if each.type == "Identity" for tensor in each.inputs]
    return any(source.type == "RestoreV2" for source in sources)
