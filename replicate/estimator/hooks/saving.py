"""CheckpointHook: writes checkpoints, and keeps or deletes old ones.

Owns the saver of a training graph and the hook that uses it: at the start of a run that restored
nothing, at every interval, and at the end. The position of the input is written beside each
checkpoint, and removed when the run ends without an interruption. This module loads nothing.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.errors import SaveError
from replicate.estimator.checkpoints.fallback import indexed_checkpoints, listed_checkpoints
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.free_space import check_free_space
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.model_dir import CHECKPOINT_NAME
from replicate.estimator.checkpoints.position_file import SUFFIX, remove_position
from replicate.estimator.checkpoints.retention import (
    KeptCheckpoints,
    remove_save_note,
    write_save_note,
)
from replicate.estimator.checkpoints.save_errors import save_errors
from replicate.estimator.checkpoints.state_saver import StateSaver
from replicate.estimator.hooks.graph_files import GraphFiles
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.saved.checkpoint_names import optional_states, saved_objects
from replicate.saved.disk_errors import disk_errors

v1 = tf.compat.v1


def saves_checkpoints(config: RunConfig) -> bool:
    """Returns True if a run saves checkpoints."""
    return bool(config.save_checkpoints_steps or config.save_checkpoints_secs)


def build_saver(scaffold: v1.train.Scaffold, config: RunConfig) -> v1.train.Saver:
    """Returns the saver of the model, or else a new saver of the default graph.

    The scaffold takes the saver from the collection SAVERS when it is finalised.
    """
    own = scaffold.saver or next(iter(v1.get_collection(v1.GraphKeys.SAVERS)), None)
    if own is not None:
        return own
    objects, states = saved_objects(), optional_states()
    options: dict[str, Any] = {
        "allow_empty": True,
        "max_to_keep": config.keep_checkpoint_max or None,
        "keep_checkpoint_every_n_hours": config.keep_checkpoint_every_n_hours,
        "save_relative_paths": True,
        "sharded": config.num_ps_replicas > 0,
    }
    saver = StateSaver(objects, states, **options) if states else v1.train.Saver(objects, **options)
    v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    return saver


class CheckpointHook(ScheduledHook):
    """Saves the first step, the last one, and one per interval in between."""

    def __init__(
        self,
        directory: FencedModelDir,
        saver: v1.train.Saver,
        readings: StepReadings,
        config: RunConfig,
        position: InputPosition | None = None,
        listeners: Sequence[v1.train.CheckpointSaverListener] = (),
        continues_input: Callable[[], bool] = bool,
        graph_files: GraphFiles | None = None,
        measured: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        must_wait: Callable[[], bool] = bool,
    ):
        """Keeps the settings.

        `continues_input` tells at the end if the next run continues at the position of the input
        that this run has reached. Without `graph_files` there are no *.meta files. `measured`
        returns a context that measures the time of a save. A save waits while `must_wait` returns
        True after a step.
        """
        self._directory = directory
        self._saver = saver
        self._readings = readings
        self._position = position
        self._listeners = listeners
        self._graph_files = graph_files
        self._measured = measured
        self._must_wait = must_wait
        self._kept = KeptCheckpoints(saver, directory)
        self._continues_input = continues_input
        self._every_steps = config.save_checkpoints_steps
        self._every_secs = config.save_checkpoints_secs
        self._retries = config.on_save_error == "retry"
        self._next = NextRun()
        self._global_step: Tensor = None
        self._saved_step: int | None = None

    def next_run(self) -> NextRun:
        """Returns the step or time of the next checkpoint."""
        return self._next

    @property
    def is_due(self) -> bool:
        """True if the interval is over."""
        return self._next.is_reached(self._readings.step)

    def begin(self) -> None:
        """Finds the step counter and starts the listeners."""
        self._global_step = v1.train.get_global_step()
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Passes the kept checkpoints to the saver, and saves unless this step is saved."""
        del coord
        step = self._readings.step
        kept = _kept_checkpoints(self._directory.model_dir)
        self._kept.start(kept)
        if self._path(step) in kept:
            self._saved_step = step
            self._start_interval(step)
        else:
            self._save(session, step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves if the interval is over; stops training if a listener asks for it."""
        del run_values
        if not self.is_due or self._must_wait():
            return
        step = int(run_context.session.run(self._global_step))
        if step != self._saved_step and self._save(run_context.session, step):
            run_context.request_stop()

    def end(self, session: v1.Session) -> None:
        """Saves the last step unless it is saved, and keeps or removes the input position."""
        step = int(session.run(self._global_step))
        continues_input = self._continues_input()
        if step != self._saved_step:
            self._save(session, step, with_position=continues_input, is_last=True)
        elif not continues_input:
            with disk_errors(
                f"Cannot remove the input position of {self._path(step)}",
                "The checkpoint is whole; the next call of train would continue the input.",
            ):
                self._directory.remove(self._path(step) + SUFFIX)
        for listener in self._listeners:
            listener.end(session, step)

    @property
    def saved(self) -> tuple[int, str]:
        """The last saved step, and the path of its checkpoint.

        Raises:
          RuntimeError: Nothing was saved yet.
        """
        if self._saved_step is None:
            raise RuntimeError(f"No step has been saved in {self._directory.model_dir} yet.")
        return self._saved_step, self._path(self._saved_step)

    def _start_interval(self, step: int) -> None:
        """Starts an interval at this step."""
        if self._every_steps:
            self._next = NextRun(step=step + self._every_steps)
        elif self._every_secs:
            self._next = NextRun(time=time.monotonic() + self._every_secs)

    def _path(self, step: int) -> str:
        return f"{self._directory.model_dir}/{CHECKPOINT_NAME}-{step}"

    def _save(
        self, session: v1.Session, step: int, with_position: bool = True, is_last: bool = False
    ) -> bool:
        """Saves one step; returns whether a listener asks for training to stop."""
        self._directory.check()
        self._start_interval(step)
        for listener in self._listeners:
            listener.before_save(session, step)
        try:
            self._write(session, step, with_position)
        except SaveError as error:
            if is_last or not self._retries:
                raise
            log.warning("%s Training goes on and saves at the next interval.", error.fault)
            return False
        self._saved_step = step
        answers = [listener.after_save(session, step) for listener in self._listeners]
        return any(answers)

    def _write(self, session: v1.Session, step: int, with_position: bool) -> None:
        path = self._path(step)
        previous = None if self._saved_step is None else self._path(self._saved_step)
        with self._measured(), save_errors(path, self._directory):
            check_free_space(path, session.graph, self._saver, previous)
            write_save_note(self._directory, [path, *self._kept.due_with(path)])
            with self._directory.staged(path) as staged:
                self._write_parts(session, step, staged, with_position)
            self._kept.add(path)
            remove_save_note(self._directory)

    def _write_parts(
        self, session: v1.Session, step: int, staged: str, with_position: bool
    ) -> None:
        """Writes the files of a checkpoint, which are published together."""
        if with_position and self._position is not None:
            self._position.save(session, staged)
        else:
            remove_position(staged)
        if self._graph_files is not None:
            self._graph_files.write_meta(session.graph, staged, self._path(step))
        self._saver.save(
            session,
            staged.removesuffix(f"-{step}"),
            global_step=step,
            write_meta_graph=False,
            write_state=False,
        )


def _kept_checkpoints(model_dir: str) -> list[str]:
    """Returns the complete checkpoints that count against the limit, oldest first.

    A checkpoint whose index is a link to nowhere does not count.
    """
    indexed = indexed_checkpoints(model_dir)
    whole = [path for path in indexed if tf.io.gfile.exists(f"{path}.index")]
    listed = [path for path in listed_checkpoints(model_dir) if path in whole]
    return listed or whole
