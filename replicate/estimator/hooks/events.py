"""Event files of a training run, for TensorBoard, and its metric lines.

Owns the tags "loss" and "global_step/sec" and the hooks that write them, together with the
summaries of the model, at their intervals. Evaluation writes its own files (`evaluating.py`).
`event_file.py` owns the format of an event file, `metric_lines.py` that of a metric line, and
`progress.py` the output on the terminal.
"""

import math
import time
from typing import Any

import tensorflow as tf

from replicate.estimator.files import OptionalFiles
from replicate.estimator.hooks.event_file import EventFile
from replicate.estimator.hooks.metric_lines import append_metrics
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

_LOSS = "loss"
_SPEED = "global_step/sec"


def event_hooks(
    writer: EventFile,
    scaffold: v1.train.Scaffold,
    readings: StepReadings,
    config: RunConfig,
) -> list[Any]:
    """Returns the hooks that write the event file and the metric lines of a training run.

    The loss gets a summary, unless the model has one with that tag.
    """
    summaries = v1.get_collection_ref(v1.GraphKeys.SUMMARIES)
    has_own = any(summary.op.name == _LOSS for summary in summaries)
    if not has_own:
        summaries.append(tf.raw_ops.ScalarSummary(tags=_LOSS, values=readings.loss_tensor))
    hooks = []
    if config.log_step_count_steps is not None:
        hooks.append(SpeedHook(writer, readings, config.log_step_count_steps))
    if config.save_summary_steps:
        every = config.save_summary_steps
        hooks.append(SummaryHook(writer, readings, scaffold, every, adds_last_loss=not has_own))
    return hooks


class SummaryHook(ScheduledHook):
    """Writes the summaries of the first step and of one per interval, and the last loss."""

    def __init__(
        self,
        writer: EventFile,
        readings: StepReadings,
        scaffold: v1.train.Scaffold,
        every_steps: int,
        adds_last_loss: bool = False,
    ):
        """Stores writer and summaries.

        If `adds_last_loss` is True, the loss of the last step is written in any case.
        """
        self._writer = writer
        self._readings = readings
        self._scaffold = scaffold
        self._every_steps = every_steps
        self._due_step = 0
        self._written_step = 0
        self._adds_last_loss = adds_last_loss

    def next_run(self) -> NextRun:
        """Returns the step of the next event."""
        return NextRun() if self._scaffold.summary_op is None else NextRun(step=self._due_step)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Marks the start of a session in the event file.

        TensorBoard drops older events from the marked step on: steps that were lost and are made
        again. The mark is the step after the one that the session starts with.
        """
        del session, coord
        start = v1.SessionLog(status=v1.SessionLog.START)
        self._writer.add_session_log(start, self._readings.step + 1)
        self._due_step = 0
        self._written_step = self._readings.step

    def before_run(self, run_context: Any) -> Any:
        """Fetches the summaries if the next step is due."""
        del run_context
        summary_op = self._scaffold.summary_op
        if summary_op is None or self._readings.step + 1 < self._due_step:
            return None
        return v1.train.SessionRunArgs(summary_op)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries if they were fetched."""
        del run_context
        if run_values.results is not None:
            self._writer.add_summary(run_values.results, self._readings.step)
            self._written_step = self._readings.step
            self._due_step = self._readings.step + self._every_steps

    def end(self, session: v1.Session) -> None:
        """Writes the loss of the last step, if its summaries were not written."""
        del session
        step, loss = self._readings.step, self._readings.loss
        if self._adds_last_loss and loss is not None and step > self._written_step:
            value = v1.Summary.Value(tag=_LOSS, simple_value=loss)
            self._writer.add_summary(v1.Summary(value=[value]), step)


class SpeedHook(ScheduledHook):
    """Writes steps per second as an event, and with the loss as a metric line.

    It writes once per interval, and at the end of training for the incomplete interval. The first
    step of a session, which TensorFlow compiles, counts only if no other one follows it.
    """

    def __init__(self, writer: EventFile, readings: StepReadings, every_steps: int):
        self._writer = writer
        self._readings = readings
        self._optional = OptionalFiles()
        self._every_steps = every_steps
        self._has_begun = False
        self._written_step = 0
        self._start = self._since = (0, 0.0)

    def next_run(self) -> NextRun:
        """Returns the step of the next event, or the first step."""
        first = math.inf if self._has_begun else self._readings.step + 1
        return NextRun(step=min(first, self._written_step + self._every_steps))

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the count."""
        del session, coord
        self._has_begun = False
        self._written_step = self._readings.step
        self._start = self._since = self._now()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Starts the clock at the first step; writes the speed if enough steps were made."""
        del run_context, run_values
        if not self._has_begun:
            self._has_begun = True
            self._since = self._now()
        if self._readings.step - self._written_step >= self._every_steps:
            self._write()

    def end(self, session: v1.Session) -> None:
        """Writes the speed since the last event."""
        del session
        if self._readings.step > self._written_step:
            self._write()

    def _write(self) -> None:
        step, now = self._now()
        since_step, since_time = self._since if step > self._since[0] else self._start
        speed = (step - since_step) / max(now - since_time, 1e-9)
        summary = v1.Summary(value=[v1.Summary.Value(tag=_SPEED, simple_value=speed)])
        self._writer.add_summary(summary, step)
        values = {_LOSS: self._readings.loss, "steps_per_sec": float(f"{speed:.4g}")}
        append_metrics(self._writer.get_logdir(), step, values, self._optional)
        self._written_step, self._since = step, self._now()

    def _now(self) -> tuple[int, float]:
        return self._readings.step, time.monotonic()
