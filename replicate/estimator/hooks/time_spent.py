"""TimeSpentHook: tells the clock of a training job about its steps, and has its file written."""

import time
from typing import Any

import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.time_spent import WRITE_SECS, TimeSpent

v1 = tf.compat.v1


class TimeSpentHook(ScheduledHook):
    """Ends the start of a call at its first step, and has the file written then and at intervals.

    It comes before the other scheduled hooks, whose work at the first step is no part of the start.
    """

    def __init__(self, clock: TimeSpent, readings: StepReadings):
        self._clock = clock
        self._readings = readings
        self._has_begun = False
        self._write_at = 0.0
        self._step = 0
        self._input_secs = 0.0

    def next_run(self) -> NextRun:
        """Returns the first step, and then the time of the next write."""
        if not self._has_begun:
            return NextRun(self._readings.step + 1)
        return NextRun(time=self._write_at)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts to count steps from the one that was restored."""
        del session, coord
        self._count()
        self._step = self._readings.step

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the start at the first step; writes the file if it is due."""
        del run_context, run_values
        if not self._has_begun:
            self._has_begun = True
            self._clock.end_start()
            self._step, self._input_secs = self._readings.step, self._readings.input_secs
        if time.monotonic() >= self._write_at:
            self._write()

    def close(self) -> None:
        """Writes the file at the end of a call, however it ends."""
        if self._has_begun:
            self._write()

    def _write(self) -> None:
        self._count()
        self._clock.write()
        self._write_at = time.monotonic() + WRITE_SECS

    def _count(self) -> None:
        """Passes the steps since the last count to the clock."""
        if self._has_begun:
            step, input_secs = self._readings.step, self._readings.input_secs
            self._clock.add_steps(max(0, step - self._step), input_secs - self._input_secs)
            self._step, self._input_secs = step, input_secs
