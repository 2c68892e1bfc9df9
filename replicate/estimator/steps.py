"""Steps: counted once per run for all who look at them, and the end of training by number.

Owns the one fetch that the hooks of a training run share: the global step after the step, and the
loss. Everything that is due at some step (`saving.py`, `events.py`, `finite.py`) reads it here, so
that hooks with nothing to do cost nothing.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1


class StepReadings(v1.train.SessionRunHook):
    """Reads step and loss in each run; it comes before the hooks that look at it.

    Attributes:
      step: The global step, after the last run.
      loss: The loss of the last run, None before the first.
      loss_tensor: Where it comes from.
    """

    def __init__(self, train_op: Operation, loss: Tensor):
        """Takes what makes a step, and a scalar."""
        self.step = 0
        self.loss: float | None = None
        self.loss_tensor = loss
        self._train_op = train_op
        self._global_step: Tensor = None
        self._request: Any = None

    def begin(self) -> None:
        """Adds the reading of both after the step, as one Tensor: each fetch has its price."""
        self._global_step = v1.train.get_global_step()
        with tf.control_dependencies([self._train_op]), v1.device("/cpu:0"):
            step = tf.cast(self._global_step.read_value(), tf.float64)
            both = tf.stack([step, tf.cast(self.loss_tensor, tf.float64)], name="step_and_loss")
        self._request = v1.train.SessionRunArgs(both)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Reads the step that the session starts with."""
        del coord
        self.step = int(session.run(self._global_step))

    def before_run(self, run_context: Any) -> Any:
        """Asks for both."""
        del run_context
        return self._request

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Takes note of both."""
        del run_context
        step, self.loss = run_values.results.tolist()
        self.step = int(step)


class StopHook(v1.train.SessionRunHook):
    """Ends training at a step, or after a number of steps."""

    def __init__(
        self, readings: StepReadings, num_steps: int | None = None, last_step: int | None = None
    ):
        """Takes one of the two; `num_steps` are counted from where the first session starts."""
        self._readings = readings
        self._num_steps = num_steps
        self._last_step = last_step

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Finds out which step is the last one."""
        del session, coord
        if self._last_step is None and self._num_steps is not None:
            self._last_step = self._readings.step + self._num_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops if it is reached."""
        del run_values
        if self._last_step is not None and self._readings.step >= self._last_step:
            run_context.request_stop()
