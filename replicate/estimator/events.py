"""Event files: the curves that TensorBoard shows of a training run.

Owns the tags "loss" and "global_step/sec" and the hooks that write them, together with the model's
own summaries, at their intervals. Evaluation writes its own file (`evaluating.py`); what appears on
the terminal is the business of `progress.py`.
"""

import time
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

_LOSS = "loss"
_SPEED = "global_step/sec"


def event_hooks(
    writer: v1.summary.FileWriter, scaffold: v1.train.Scaffold, loss: Tensor, config: RunConfig
) -> list[Any]:
    """Returns the hooks that fill the event file of a training run.

    The loss gets a summary under its tag, unless the model makes one itself.

    Args:
      writer: Of the event file.
      scaffold: Of the model; its summary_op is what gets written.
      loss: Scalar.
      config: Says how often.
    """
    summaries = v1.get_collection_ref(v1.GraphKeys.SUMMARIES)
    if not any(summary.op.name == _LOSS for summary in summaries):
        summaries.append(tf.raw_ops.ScalarSummary(tags=_LOSS, values=loss))
    hooks = []
    if config.log_step_count_steps is not None:
        hooks.append(SpeedHook(writer, config.log_step_count_steps))
    if config.save_summary_steps is not None:
        hooks.append(
            v1.train.SummarySaverHook(
                save_steps=config.save_summary_steps, summary_writer=writer, scaffold=scaffold
            )
        )
    return hooks


class SpeedHook(v1.train.SessionRunHook):
    """Writes the global steps per second; between two events it only counts."""

    def __init__(self, writer: v1.summary.FileWriter, every_steps: int):
        """Takes the writer, and the number of runs between two events."""
        self._writer = writer
        self._every_steps = every_steps
        self._global_step: Tensor = None
        self._runs = 0
        self._since_step = 0
        self._since_time = 0.0

    def begin(self) -> None:
        """Finds the step counter."""
        self._global_step = v1.train.get_global_step()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the count."""
        del coord
        self._restart(int(session.run(self._global_step)))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the speed if enough runs were made since the last event."""
        del run_values
        self._runs += 1
        if self._runs < self._every_steps:
            return
        step = int(run_context.session.run(self._global_step))
        speed = (step - self._since_step) / max(time.monotonic() - self._since_time, 1e-9)
        summary = v1.Summary(value=[v1.Summary.Value(tag=_SPEED, simple_value=speed)])
        self._writer.add_summary(summary, step)
        self._restart(step)

    def _restart(self, step: int) -> None:
        self._runs, self._since_step, self._since_time = 0, step, time.monotonic()
