"""The watch over other processes: one that is lost ends this one, too.

Owns a thread, and `sys.excepthook` from then on. A collective may wait without limit for a process
that is lost, and Keras' loop cannot be left from outside; or it fails, and the server is unusable
from then on. Either way the process ends with the exit code after which schedulers, and
`replicate.launch --restart`, start it again.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import final

from replicate.errors import ClusterError
from replicate.estimator.cluster.peers import LOST, Peers, loss_of
from replicate.estimator.cluster.servers import absent_tasks
from replicate.estimator.run_config import RunConfig
from replicate.roles import TRAINERS

POLL_SECS = 0.2

LOOK_SECS = 2.0
"""Seconds in which a lost process is looked for after a collective has failed."""


@final
class Watch:
    """Ends this process if another one is lost while they train or evaluate together."""

    def __init__(self, config: RunConfig, limit: float) -> None:
        """Watches nothing yet.

        Args:
          config: The cluster and this task.
          limit: Seconds that a step may wait for the slowest process.
        """
        self._config = config
        self._limit = limit
        self._peers = Peers(config)
        self._depth = 0
        self._beat_at = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="peers", daemon=True)

    def start(self) -> None:
        """Connects to the other processes, whose servers run, and starts the thread."""
        self._peers.connect()
        self._show = sys.excepthook
        sys.excepthook = self._end_by_error
        self._thread.start()

    def begin(self) -> None:
        """Begins to watch: from now on this process needs all others."""
        self.beat()
        self._depth += 1

    def end(self) -> None:
        """Ends what `begin` has begun; the pairs may be nested."""
        self._depth = max(self._depth - 1, 0)

    def forget(self) -> None:
        """Ends all that has begun."""
        self._depth = 0

    def beat(self) -> None:
        """Records that the loop is alive."""
        self._beat_at = time.monotonic()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Watches inside a context."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def _end_by_error(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Ends the process by the code of a lost process if an uncaught error says that one is."""
        if not isinstance(error, LOST) or "Collective" not in error.message:
            self._show(kind, error, trace)
            return
        deadline = time.monotonic() + LOOK_SECS
        while not (lost := self._peers.lost()) and time.monotonic() < deadline:
            time.sleep(POLL_SECS)
        ClusterError(loss_of(self._config, lost or ["one of the workers"])).abort()

    def _watch(self) -> None:
        while True:
            time.sleep(POLL_SECS)
            lost = self._peers.lost()
            if not self._depth:
                continue
            if lost:
                ClusterError(loss_of(self._config, lost)).abort()
            silence = time.monotonic() - self._beat_at
            if silence > self._limit:
                self._end_silence(silence)

    def _end_silence(self, silence: float) -> None:
        """Ends the process because of a step that takes too long, unless it was just completed."""
        absent = "; ".join(absent_tasks(self._config, TRAINERS))
        if time.monotonic() - self._beat_at < silence:
            return
        config = self._config
        cause = (
            f"there is no answer from {absent}"
            if absent
            else "all others answer: one of them is slower, has fewer batches in its epoch, or was "
            "stopped by a callback, such as TerminateOnNaN, that looks at its own numbers"
        )
        error = ClusterError(
            f"{config.task_type} {config.task_id} has made no step for {silence:.0f} seconds "
            f"(timeout_secs={self._limit:g}), and {cause}. Start all workers again."
        )
        error.abort()
