"""HandOverHook: keeps the state of the newest step, and saves it when another worker is lost."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow as tf

from replicate.estimator.checkpoints.hand_over import HandOver
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log

v1 = tf.compat.v1

POLL_SECS = 0.1

LIMIT_SECS = 60.0
"""Seconds that a worker waits until the first one that is left has saved."""


@final
class HandOverHook(ScheduledHook):
    """Keeps a copy of the variables after each step after which all could go on with them.

    It runs after all hooks that change or save variables.
    """

    def __init__(
        self,
        readings: StepReadings,
        position: InputPosition | None,
        model_dir: str,
        names: Sequence[str],
        rank: int,
        lost: Callable[[], Sequence[str]],
        is_whole: Callable[[], bool],
        is_by_signal: Callable[[], bool],
    ):
        """Stores the parts.

        `names` are those of the workers by rank, and `lost` returns those that are lost.
        `is_whole` tells if all could go on with the variables that this worker has after this step,
        `is_by_signal` if a signal ends them.
        """
        self._readings = readings
        self._position = position
        self._model_dir = model_dir
        self._names = names
        self._rank = rank
        self._lost = lost
        self._is_whole = is_whole
        self._is_by_signal = is_by_signal
        self._state: HandOver | None = None
        self._session: v1.Session = None
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def state(self) -> HandOver:
        """The copies, from `begin` on."""
        if self._state is None:
            raise RuntimeError("The hook has not begun.")
        return self._state

    def next_run(self) -> NextRun:
        """Returns the next step."""
        return NextRun(step=self._readings.step + 1)

    def begin(self) -> None:
        """Adds the copies to the graph, when it has all variables."""
        elements = None if self._position is None else self._position.elements
        name = f"{self._rank}_of_{len(self._names)}"
        self._state = HandOver(elements, self._model_dir, name)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Takes the first copy. The chief has saved what was handed over before."""
        del coord
        self._session = session
        self._take()
        if self._rank == 0:
            self.state.remove()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Copies the variables if all workers could go on with them."""
        del run_context, run_values
        if self._is_whole():
            self._take()

    def end(self, session: v1.Session) -> None:
        """Hands over after a signal: there may be more or fewer workers after the next start."""
        if self._rank == 0 and self._is_by_signal():
            self.state.take(session)
            with self._failures_logged():
                self._save(session)

    def hand_over(self) -> None:
        """Returns when the first worker that is left has saved its newest step.

        A worker is the first if all of lower rank are lost. Any thread may call this.
        """
        with self._lock:
            if self._is_over or self._session is None:
                return
            self._is_over = True
            deadline = time.monotonic() + LIMIT_SECS
            with self._failures_logged():
                while not self.state.exists() and time.monotonic() < deadline:
                    if set(self._names[: self._rank]) <= set(self._lost()):
                        self._save(self._session)
                        return
                    time.sleep(POLL_SECS)

    def _take(self) -> None:
        with self._lock:
            if not self._is_over:
                self.state.take(self._session)

    def _save(self, session: v1.Session) -> None:
        step = self.state.save(session)
        log.info("Step %d was handed over to the workers that are left.", step)

    @contextlib.contextmanager
    def _failures_logged(self) -> Iterator[None]:
        """Logs errors inside: a worker that cannot reach the model directory ends all the same."""
        try:
            yield
        except tf.errors.OpError as error:
            log.warning("Step %d was not handed over: %s", self._readings.step, error.message)
