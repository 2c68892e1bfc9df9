"""StopHook: ends a run at a step, or after a number of steps."""

from typing import Any

import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1


class StopHook(ScheduledHook):
    """Ends a run at a step, or after a number of steps."""

    def __init__(
        self, readings: StepReadings, num_steps: int | None = None, last_step: int | None = None
    ):
        """Stores the limit; nothing ends the run if both limits are None.

        Args:
          readings: The step of the run.
          num_steps: Number of steps from the step at which the first session starts.
          last_step: Step at which the run ends. It takes precedence over `num_steps`.
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
