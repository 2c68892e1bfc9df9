"""Rounds of evaluation: evaluate a new checkpoint, then call the exporters.

Owns the times of the rounds. `RoundsHook` makes rounds between two steps of a training run.
`follow_checkpoints` makes rounds in a process of its own, which watches the model directory while
other processes train. `train_and_evaluate` starts both.
"""

import gc
import math
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.fallback import listed_checkpoints, step_in_name
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.checkpoints.reading import damage_in, read_variable
from replicate.estimator.end_marker import TrainingEnd, has_ended
from replicate.estimator.exporting import remove_unfinished
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log
from replicate.estimator.train_specs import EvalSpec

v1 = tf.compat.v1

POLL_SECS = 1.0
"""Seconds between two searches for a new checkpoint."""

SAY_SECS = 10
"""Seconds of waiting after which the log says what the evaluator waits for."""

_COLLECT_SECS = 30.0
"""Least seconds between two collections of garbage, each of which takes some tenths of a second."""

_PATIENCE = 10
"""Attempts to read a checkpoint before the failure counts as an error."""


class Evaluates(Protocol):
    """The methods of an Estimator that rounds use."""

    @property
    def model_dir(self) -> str:
        """Directory of checkpoints."""

    @property
    def evaluate(self) -> Callable[..., dict[str, Any]]:
        """Measures the model."""

    def latest_checkpoint(self) -> str | None:
        """Returns the newest checkpoint."""


class EvaluationRounds:
    """Evaluates checkpoints, exports them, and keeps the results.

    Attributes:
      results: Results of the last evaluation; None before it.
      exports: Results of the exporters in the last round.
    """

    def __init__(self, estimator: Evaluates, eval_spec: EvalSpec, exports_models: bool = True):
        """Stores the parts; runs nothing yet.

        `exports_models` is False in a worker that evaluates its share and leaves the rest to the
        chief.
        """
        self._exports_models = exports_models
        self.results: dict[str, Any] | None = None
        self.exports: list[Any] = []
        self._estimator = estimator
        self._spec = eval_spec
        self._evaluated: str | None = None
        self._collect_at = time.monotonic() + _COLLECT_SECS

    def clean(self) -> None:
        """Removes the files of killed exports. No other process may export there."""
        for exporter in self._spec.exporters:
            remove_unfinished(self._folder(exporter), time.time())

    def run(self, checkpoint: str, is_final: bool = False) -> None:
        """Evaluates a checkpoint, unless the last round did, and exports it."""
        spec = self._spec
        if checkpoint != self._evaluated:
            self.results = self._estimator.evaluate(
                spec.input_fn,
                steps=spec.steps,
                hooks=spec.hooks,
                checkpoint_path=checkpoint,
                name=spec.name,
            )
            self._evaluated = checkpoint
        self.exports = self._export(checkpoint, is_final) if self._exports_models else []
        self._collect_garbage()

    def _export(self, checkpoint: str, is_final: bool) -> list[Any]:
        return [
            exporter.export(
                self._estimator,
                self._folder(exporter),
                checkpoint_path=checkpoint,
                eval_result=self.results,
                is_the_final_export=is_final,
            )
            for exporter in self._spec.exporters
        ]

    def _collect_garbage(self) -> None:
        """Frees the graphs of past rounds, which are cycles of Python objects, every now and then.

        Python itself would wait until a quarter of all objects are new: some 50 MB of graphs.
        """
        if time.monotonic() >= self._collect_at:
            gc.collect()
            self._collect_at = time.monotonic() + _COLLECT_SECS

    def _folder(self, exporter: Any) -> str:
        return os.path.join(self._estimator.model_dir, "export", exporter.name)


class RoundsHook(ScheduledHook):
    """Makes a round after the first step that follows a new checkpoint.

    The first checkpoint of a run is not evaluated, since it holds nothing new. The last checkpoint
    is evaluated in the final round, after training.
    """

    def __init__(self, rounds: EvaluationRounds, model_dir: str, throttle_secs: float):
        self.listener = SaveListener()
        self._rounds = rounds
        self._model_dir = model_dir
        self._throttle_secs = throttle_secs
        self._last_time = 0.0

    def next_run(self) -> NextRun:
        """Returns the time of the next round; never if there is no checkpoint for it."""
        if self.listener.new_step is None:
            return NextRun()
        return NextRun(time=self._last_time + self._throttle_secs)

    def begin(self) -> None:
        """Starts the clock."""
        self._last_time = time.monotonic()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Makes a round if there is a checkpoint for it and enough time has passed."""
        del run_context, run_values
        step = self.listener.new_step
        if step is None or time.monotonic() < self.next_run().time:
            return
        self.listener.new_step = None
        self._rounds.run(os.path.join(self._model_dir, f"{CHECKPOINT_NAME}-{step}"))
        self._last_time = time.monotonic()


class SaveListener(v1.train.CheckpointSaverListener):
    """Keeps the step of the newest checkpoint that was not evaluated, None without one."""

    def __init__(self) -> None:
        self.new_step: int | None = None
        self._is_first = True

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Stores the step of a save, unless it is the first save."""
        del session
        if not self._is_first:
            self.new_step = global_step_value
        self._is_first = False


def follow_checkpoints(
    rounds: EvaluationRounds, estimator: Evaluates, max_steps: int | None, eval_spec: EvalSpec
) -> None:
    """Makes a round for each new checkpoint, until one has reached max_steps or training has ended.

    A damaged checkpoint is left out after several attempts: training sets it aside when it starts
    again, and makes others. If it is the last one, that is an error.

    The first round begins after `start_delay_secs`, or as soon as there is nothing to wait for:
    training has ended since this call, or the last checkpoint is there. An older end marker does
    not count before the delay is over: a run that is about to continue removes it meanwhile.

    Raises:
      CheckpointError: The last checkpoint is damaged, one cannot be evaluated or exported, or the
        directory in which there were checkpoints is gone, after several attempts.
    """
    model_dir = estimator.model_dir
    _wait_for_start(model_dir, max_steps, eval_spec.start_delay_secs)
    no_checkpoint = _Notice(f"Waiting for the first checkpoint in {model_dir}.")
    last: str | None = None
    failures = 0
    while True:
        is_final = has_ended(model_dir)  # Before the search, which then finds the last one.
        newest = next(reversed(listed_checkpoints(model_dir)), None)
        is_gone = newest is None and last is not None and not tf.io.gfile.isdir(model_dir)
        if not is_gone and (newest is None or (newest == last and not is_final)):
            if last is None:
                no_checkpoint.show_if_due()
            time.sleep(POLL_SECS)
            continue
        started = time.monotonic()
        try:
            if newest is None:
                raise CheckpointError(
                    f"Cannot evaluate any more: {model_dir}, which held {last}, was removed or "
                    "replaced. Bring the directory back and start again."
                )
            step = int(read_variable(newest, "global_step"))
            is_final = is_final or (max_steps is not None and step >= max_steps)
            rounds.run(newest, is_final)
        except CheckpointError as error:
            failures += 1
            if failures < _PATIENCE:
                log.warning("Will look again for a checkpoint to evaluate: %s", error)
            elif newest is None or is_final or not _is_replaceable(newest, max_steps):
                raise
            else:
                log.warning("Waiting for another checkpoint, since %s stays damaged.", newest)
                last, failures = newest, 0
            time.sleep(POLL_SECS)
            continue
        if is_final:
            return
        last, failures = newest, 0
        _wait_until(started + eval_spec.throttle_secs, model_dir)


def _wait_for_start(model_dir: str, max_steps: int | None, delay_secs: float) -> None:
    """Sleeps until the first evaluation may begin."""
    training_end = TrainingEnd(model_dir)
    deadline = time.monotonic() + delay_secs
    notice = _Notice(
        f"Waiting for the first evaluation: it begins {delay_secs:g} seconds after the start "
        "(EvalSpec.start_delay_secs), or when training ends."
    )
    while (left := deadline - time.monotonic()) > 0:
        newest = next(reversed(listed_checkpoints(model_dir)), None)
        if training_end.is_new() or (newest is not None and _is_last(newest, max_steps)):
            return
        notice.show_if_due()
        time.sleep(min(POLL_SECS, left))


class _Notice:
    """A line that is logged once, if a wait takes long."""

    def __init__(self, text: str):
        self._text = text
        self._show_at = time.monotonic() + SAY_SECS

    def show_if_due(self) -> None:
        """Logs the line if the wait has taken long by now, and the line was not logged."""
        if time.monotonic() >= self._show_at:
            self._show_at = math.inf
            log.warning("%s", self._text)


def _is_last(path: str, max_steps: int | None) -> bool:
    """Returns True if a checkpoint is the last one of its training, by its name."""
    return max_steps is not None and step_in_name(path) >= max_steps


def _is_replaceable(path: str, max_steps: int | None) -> bool:
    """Returns True if a checkpoint is damaged and not the last one: training makes another."""
    return not _is_last(path, max_steps) and damage_in(path) is not None


def _wait_until(deadline: float, model_dir: str) -> None:
    """Sleeps until a time of the monotonic clock, or until training has ended."""
    while (left := deadline - time.monotonic()) > 0 and not has_ended(model_dir):
        time.sleep(min(POLL_SECS, left))
