"""ScheduledHook: the base class of hooks that say when they run next.

A small model makes thousands of steps per second, and calling seven hooks around each step would
take longer than the step. The training loop (`step_loop.py`) therefore calls a ScheduledHook only
at the step or time that its `next_run` returns. It calls all other hooks around every step.
"""

import math
import time
from typing import NamedTuple

import tensorflow as tf

v1 = tf.compat.v1


class NextRun(NamedTuple):
    """The next step or time at which a hook runs, whichever comes first; by default never.

    Attributes:
      step: The hook runs at the first step that reaches this number.
      time: The hook runs at the first step after this time of `time.monotonic()`, in seconds.
    """

    step: float = math.inf
    time: float = math.inf

    def is_reached(self, step: int) -> bool:
        """Returns True if a hook with this schedule runs at a step that is made now."""
        return step >= self.step or time.monotonic() >= self.time


class ScheduledHook(v1.train.SessionRunHook):
    """A session hook that runs only at some steps.

    A subclass defines `next_run` and the methods of `tf.compat.v1.train.SessionRunHook` that it
    needs. Three rules differ from those of other hooks:

    - All scheduled hooks are called when the first of them is due. `after_run` of a hook that is
      called too early does nothing.
    - A time may pass, or another worker may move the step counter, while a step is made. The loop
      then calls `after_run` without `before_run`, and `run_values.results` is None.
    - `before_run` may ask for fetches and options, but not feed values. If several hooks ask for
      options, those of the first hook are taken.

    This hook logs the learning rate every 100 steps:

        class LearningRateHook(ScheduledHook):
            def __init__(self, readings, learning_rate):
                self._readings = readings
                self._learning_rate = learning_rate
                self._next_run = NextRun(step=1)

            def next_run(self):
                return self._next_run

            def after_run(self, run_context, run_values):
                step = self._readings.step
                if self._next_run.is_reached(step):
                    log.info("Step %d: %g", step, run_context.session.run(self._learning_rate))
                    self._next_run = NextRun(step=step + 100)
    """

    @property
    def is_done(self) -> bool:
        """True if training needs no step, when a session was just made."""
        return False

    def next_run(self) -> NextRun:
        """Returns the step or time at which the hook runs next.

        The loop asks after each session is made and after each call of the scheduled hooks.
        """
        raise NotImplementedError
