"""Watchdog: stops training if a step hangs because another process is lost.

Owns a thread beside the training loop of a process in a cluster. The loss of a server usually fails
a step, and `recovery.py` makes a new session. But a step can also wait for ever: for a worker that
is lost, in synchronous training, or for a machine that no longer answers. If a step takes long, the
watchdog asks the tasks that take part in it, logs those that do not answer, and finally stops
training with an error that names them. If all tasks answer, it looks for a dead connection to a
parameter server, and stops training if there is one. After a signal it ends the wait of a
synchronous step. Workers without parameter servers are stopped as soon as one of them is lost.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster.board import has_ended
from replicate.estimator.cluster.connections import DeadConnection, dead_connection
from replicate.estimator.cluster.peers import Peers, cut_off, loss_of, names_chief
from replicate.estimator.cluster.servers import absent_tasks, report_dead_connection
from replicate.estimator.cluster.sync_replicas import is_synchronous
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.roles import TRAINERS, TaskType

v1 = tf.compat.v1

POLL_SECS = 0.5
LOOK_SECS = 30
"""Seconds without a step, or since the last question, after which the tasks are asked."""

WAKE_SECS = 10
"""Seconds for the training loop to end after its session was closed, before the process ends."""


PEER_WAKE_SECS = 3
"""The same, after the loss of a worker without which no other can go on."""

HANDED_OVER_WAKE_SECS = 1.0
"""The same, once the newest step is handed over: nothing can be lost, and others wait."""

PEER_LOOK_SECS = 1.0
"""Seconds without a step after which workers that can go on without others ask all of them."""

PEER_ANSWER_SECS = 3.0
"""Seconds that a worker then has for its answer; one that is stopped or cut off has none."""


class Watchdog(ScheduledHook):
    """Watchdog of the training loop that runs inside it. It is a context and a hook."""

    def __init__(
        self,
        config: RunConfig,
        is_interrupted: Callable[[], bool] = bool,
        release: Callable[[], None] = lambda: None,
    ):
        """Prepares to watch the steps of the default graph.

        After a signal, once `is_interrupted` returns True, the thread calls `release` once, to end
        the wait of a synchronous step.
        """
        self.error: ClusterError | None = None
        self._config = config
        self._is_interrupted = is_interrupted
        self._release = release
        self._limit = config.step_timeout_secs or config.session_creation_timeout_secs
        if config.all_reduce is not None:
            self._limit = min(self._limit, config.all_reduce.timeout_secs)
        jobs = [TaskType.PS]
        if is_synchronous(v1.get_default_graph()) or config.all_reduce is not None:
            jobs += TRAINERS
        self._jobs = jobs
        self.peers = Peers(config)
        self._hand_over: Callable[[], None] | None = None
        self._ask_peers_after = PEER_LOOK_SECS
        self._silent: list[str] = []
        self._session: v1.Session = None
        self._beat_at = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        """Starts the thread, if there is a cluster."""
        self.beat()
        if self._config.master:
            self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Ends the thread.

        Raises:
          ClusterError: The watchdog has stopped the loop.
        """
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(POLL_SECS)
        self.peers.close()
        if self.error is not None and error not in (None, self.error):
            raise self.error from error

    def beat(self) -> None:
        """Records that the training loop is alive: it has made a step, or waits with a limit."""
        self._beat_at = time.monotonic()

    def end_after(self, hand_over: Callable[[], None]) -> None:
        """Has `hand_over` called before an error ends this worker, since others can go on.

        A worker that is stopped or cut off then counts as lost soon.
        """
        self._hand_over = hand_over

    @contextlib.contextmanager
    def handing_over(self) -> Iterator[None]:
        """Hands over before an error about the cluster leaves the context."""
        try:
            yield
        except ClusterError:
            if self._hand_over is not None:
                self._hand_over()
            raise

    def next_run(self) -> NextRun:
        """Returns never: the loop reports its steps by `beat`."""
        return NextRun()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Stores the session, to close it if it hangs."""
        del coord
        self._session = session
        self.beat()

    def _watch(self) -> None:
        beat_at, look_after = -math.inf, 0.0
        is_released = False
        while not self._is_over.wait(POLL_SECS):
            if not is_released and self._is_interrupted():
                is_released = True
                self._release()
            if self._has_lost_peers():
                return
            if self._beat_at != beat_at:
                beat_at, look_after = self._beat_at, min(LOOK_SECS, self._limit)
            silence = time.monotonic() - beat_at
            if silence < look_after:
                continue
            look_after = silence + min(LOOK_SECS, self._limit)
            if silence < self._limit:
                look_after = min(look_after, self._limit)
            absent = self._absent(silence)
            is_late = silence >= self._limit
            dead = dead_connection(self._config) if is_late and not absent else None
            if self._beat_at != beat_at:
                continue
            if is_late and (absent or dead):
                self._stop(absent, dead, silence)
                return
            if absent:
                log.warning("No step for %d seconds: waiting for %s.", silence, absent)

    def _has_lost_peers(self) -> bool:
        """Ends training if another worker is lost, unless all have made their last step."""
        ended = self.peers.lost()
        lost = ended or self._silent_peers()
        # A chief that does not answer would not tell if all have ended, either.
        if not lost or (not names_chief(lost) and has_ended(self._config)):
            return False
        wake_secs = PEER_WAKE_SECS if self._hand_over is None else HANDED_OVER_WAKE_SECS
        all_others = self._config.num_worker_replicas - 1
        is_cut_off = self._hand_over is not None and not ended and len(lost) == all_others > 1
        loss = ClusterError(loss_of(self._config, lost))
        self._end(cut_off(self._config) if is_cut_off else loss, wake_secs)
        return True

    def _silent_peers(self) -> list[str]:
        """Returns the workers that do not answer, if others can go on without them.

        They are asked 1, 2, 4 ... seconds after the newest step.
        """
        beat_at = self._beat_at
        silence = time.monotonic() - beat_at
        if silence < PEER_LOOK_SECS:
            self._ask_peers_after = PEER_LOOK_SECS
        is_due = silence >= self._ask_peers_after
        if self._hand_over is None or self._session is None or not is_due:
            return []
        self._ask_peers_after = 2 * silence
        absent = absent_tasks(self._config, TRAINERS, PEER_ANSWER_SECS)
        self._silent = absent if self._beat_at == beat_at else []
        return self._silent

    def lost_peers(self) -> list[str]:
        """Returns the workers whose processes have ended, or that do not answer."""
        silent = self._silent or absent_tasks(self._config, TRAINERS, PEER_ANSWER_SECS)
        return [*self.peers.lost(), *silent]

    def _absent(self, silence: float) -> str:
        """Returns the names of the tasks that do not answer.

        Collectives have no time limit of their own: one that waits for longer than this never ends.
        """
        absent = "; ".join(absent_tasks(self._config, self._jobs))
        patience = self._limit + min(LOOK_SECS, self._limit)
        hangs = self._config.all_reduce is not None and silence >= patience
        return absent or ("one of the workers, all of which can be reached" if hangs else "")

    def _stop(self, absent: str, dead: DeadConnection | None, silence: float) -> None:
        """Ends training because a step hangs."""
        config = self._config
        if dead is None:
            cause = f"there is no answer from {absent}. Start it again, or look for its error"
        else:
            cause = dead.advice
            if not dead.is_own:
                report_dead_connection(config.master, config, dead.server)
        text = (
            f"{config.task_type} {config.task_id} has made no step for {silence:.0f} seconds, and "
            f"{cause}; training continues from the newest checkpoint."
        )
        self._end(ClusterError(text), WAKE_SECS)

    def _end(self, error: ClusterError, wake_secs: float) -> None:
        """Ends the training loop by closing its session, or ends the process if that fails."""
        self.error = error
        if self._hand_over is not None:
            self._hand_over()
        if self._session is not None:
            self._session.close()
        if not self._is_over.wait(wake_secs):
            self.error.abort()
