"""Event files: the curves that TensorBoard shows of a training run, and the same as metric lines.

Owns the tags "loss" and "global_step/sec" and the hooks that write them, together with the model's
own summaries, at their intervals. Evaluation writes its own files (`evaluating.py`); what a metric
line looks like is said in `metric_lines.py`, and what appears on the terminal in `progress.py`.
"""

import time
from typing import Any

import tensorflow as tf

from replicate.estimator.hooks.metric_lines import append_metrics
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.stepping import Due, PatientHook
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

_LOSS = "loss"
_SPEED = "global_step/sec"


def event_writer(folder: str) -> v1.summary.FileWriter:
    """Returns a writer of a new event file.

    By the names that TensorFlow gives, the file of the same second would be written over.

    Args:
      folder: Directory of the file, made when absent.
    """
    return v1.summary.FileWriter(folder, filename_suffix=f".{time.time_ns()}")


def event_hooks(
    writer: v1.summary.FileWriter,
    scaffold: v1.train.Scaffold,
    readings: StepReadings,
    config: RunConfig,
) -> list[Any]:
    """Returns the hooks that fill the event file of a training run, and its metric lines.

    The loss gets a summary under its tag, unless the model makes one itself.

    Args:
      writer: Of the event file.
      scaffold: Of the model; its summary_op is what gets written.
      readings: Of step and loss.
      config: Says how often.
    """
    summaries = v1.get_collection_ref(v1.GraphKeys.SUMMARIES)
    if not any(summary.op.name == _LOSS for summary in summaries):
        summaries.append(tf.raw_ops.ScalarSummary(tags=_LOSS, values=readings.loss_tensor))
    hooks = []
    if config.log_step_count_steps is not None:
        hooks.append(SpeedHook(writer, readings, config.log_step_count_steps))
    if config.save_summary_steps:
        hooks.append(SummaryHook(writer, readings, scaffold, config.save_summary_steps))
    return hooks


class SummaryHook(PatientHook):
    """Writes the summaries of the first step and of one per interval."""

    def __init__(
        self,
        writer: v1.summary.FileWriter,
        readings: StepReadings,
        scaffold: v1.train.Scaffold,
        every_steps: int,
    ):
        """Takes what to write where, and the steps between two events."""
        self._writer = writer
        self._readings = readings
        self._scaffold = scaffold
        self._every_steps = every_steps
        self._due_step = 0

    def due(self) -> Due:
        """Returns the step of the next event."""
        return Due() if self._scaffold.summary_op is None else Due(step=self._due_step)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Marks the start of a session in the event file, which ends curves of lost steps.

        Lost are the steps from the mark on: not the one that the session starts with.
        """
        del session, coord
        start = v1.SessionLog(status=v1.SessionLog.START)
        self._writer.add_session_log(start, self._readings.step + 1)
        self._due_step = 0

    def before_run(self, run_context: Any) -> Any:
        """Asks for the summaries if the next step is due."""
        del run_context
        summary_op = self._scaffold.summary_op
        if summary_op is None or self._readings.step + 1 < self._due_step:
            return None
        return v1.train.SessionRunArgs(summary_op)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries if they were asked for."""
        del run_context
        if run_values.results is not None:
            self._writer.add_summary(run_values.results, self._readings.step)
            self._due_step = self._readings.step + self._every_steps


class SpeedHook(PatientHook):
    """Writes the global steps per second as an event, and with the loss as a metric line.

    It does so once per interval, and for what is left of one when training ends.
    """

    def __init__(self, writer: v1.summary.FileWriter, readings: StepReadings, every_steps: int):
        """Takes the writer, and the number of steps between two events."""
        self._writer = writer
        self._readings = readings
        self._every_steps = every_steps
        self._since_step = 0
        self._since_time = 0.0

    def due(self) -> Due:
        """Returns the step of the next event."""
        return Due(step=self._since_step + self._every_steps)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the count."""
        del session, coord
        self._restart()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the speed if enough steps were made since the last event."""
        del run_context, run_values
        if self._readings.step - self._since_step >= self._every_steps:
            self._write()

    def end(self, session: v1.Session) -> None:
        """Writes the speed since the last event."""
        del session
        if self._readings.step > self._since_step:
            self._write()

    def _write(self) -> None:
        step = self._readings.step
        speed = (step - self._since_step) / max(time.monotonic() - self._since_time, 1e-9)
        summary = v1.Summary(value=[v1.Summary.Value(tag=_SPEED, simple_value=speed)])
        self._writer.add_summary(summary, step)
        values = {_LOSS: self._readings.loss, "steps_per_sec": float(f"{speed:.4g}")}
        append_metrics(self._writer.get_logdir(), step, values)
        self._restart()

    def _restart(self) -> None:
        self._since_step, self._since_time = self._readings.step, time.monotonic()
