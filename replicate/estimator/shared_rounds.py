"""Rounds of evaluation that all workers without parameter servers make together.

The chief announces the step of a checkpoint after one training step; after the next one, all
workers know it and evaluate their shares. `train_and_evaluate` adds the hook if the `AllReduce` has
evaluates=True.
"""

import os
import time
from typing import Any, final

import tensorflow as tf

from replicate.all_reduce.step import current_step
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.evaluation_rounds import EvaluationRounds, SaveListener
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook

v1 = tf.compat.v1


@final
class SharedRoundsHook(ScheduledHook):
    """Makes a round on all workers after a step in which the chief has announced a checkpoint.

    Attributes:
      listener: Tells the chief's hook of new checkpoints.
    """

    def __init__(
        self, rounds: EvaluationRounds, model_dir: str, throttle_secs: float, is_chief: bool
    ):
        """Stores the parts. The chief announces rounds, at least `throttle_secs` apart."""
        self.listener = SaveListener()
        self._rounds = rounds
        self._model_dir = model_dir
        self._throttle_secs = throttle_secs
        self._is_chief = is_chief
        self._last_time = 0.0

    def next_run(self) -> NextRun:
        """Returns the next step: each of them may bring an announcement."""
        return NextRun(step=0)

    def begin(self) -> None:
        """Adds operations to the graph, and starts the clock.

        Raises:
          ValueError: The process does not train with other workers.
        """
        workers = current_step()
        if workers is None:
            raise ValueError("SharedRoundsHook needs a graph that is trained by AllReduce.")
        self._announced = workers.announced
        self._step = v1.placeholder(tf.int64, [])
        self._announce = workers.announcement.assign(self._step, read_value=False)
        self._last_time = time.monotonic()

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Asks for the announcement."""
        del run_context
        return v1.train.SessionRunArgs(self._announced)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Makes the announced round, or announces one if it is time."""
        announced = int(run_values.results or 0)
        if announced:
            self._set(run_context.session, 0)
            self._rounds.run(os.path.join(self._model_dir, f"{CHECKPOINT_NAME}-{announced}"))
            self._last_time = time.monotonic()
        elif self._is_due:
            self._set(run_context.session, self.listener.new_step)
            self.listener.new_step = None

    @property
    def _is_due(self) -> bool:
        has_waited = time.monotonic() - self._last_time >= self._throttle_secs
        return self._is_chief and self.listener.new_step is not None and has_waited

    def _set(self, session: v1.Session, step: int | None) -> None:
        if self._is_chief:
            session.run(self._announce, {self._step: step})
