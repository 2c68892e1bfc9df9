"""Recovery: sessions that were lost are made anew, a bounded number of times.

Owns the counting of lost sessions, the wait before the next one, and the error at the end of it.
What a session is filled with is in `session.py` and `cluster_session.py`; that a step hangs instead
of failing is found by `watchdog.py`. TensorFlow's monitored session asks the creator of this module
for a new session whenever a server was lost, without end; it is the creator that gives up.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster.servers import POLL_SECS, WaitCancelled, wait_for_parameter_servers
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

MAX_PAUSE_SECS = 60

_GRAPH_ERROR = "Graph execution error:"
_LOST = (tf.errors.AbortedError, tf.errors.UnavailableError)


class Restarts:
    """Counts the sessions that were lost since training last got further than ever before."""

    def __init__(self, config: RunConfig, readings: StepReadings):
        """Takes the limit, and where to read the step that is reached."""
        self._config = config
        self._readings = readings
        self._furthest = 0
        self._count = 0
        self._cause = "its hooks could not be started"

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Remembers why the session inside the context was lost, and passes the error on."""
        try:
            yield
        except _LOST as error:
            self._cause = _told(error)
            raise

    def pause(self, is_over: Callable[[], bool]) -> None:
        """Waits 1, 2, 4 ... 60 seconds before a session is made anew.

        Args:
          is_over: Asked on the way: whether none is needed any more.

        Raises:
          ClusterError: No more are to be made.
          WaitCancelled: `is_over` said so.
        """
        if self._readings.step > self._furthest:
            self._furthest = self._readings.step
            self._count = 0
        self._count += 1
        config = self._config
        if self._count > config.max_restarts:
            raise ClusterError(
                f"{config.task_type} {config.task_id} gives up at step {self._furthest}: its "
                f"session was lost {self._count} times without a step beyond that, and "
                f"max_restarts is {config.max_restarts}. The last cause was {self._cause}. Look "
                "at the logs of the parameter servers."
            )
        secs = min(2.0 ** (self._count - 1), MAX_PAUSE_SECS)
        log.warning(
            "The session was lost (%s). Making a new one in %g seconds; restart %d of %d.",
            self._cause,
            secs,
            self._count,
            config.max_restarts,
        )
        deadline = time.monotonic() + secs
        while (left := deadline - time.monotonic()) > 0:
            if is_over():
                raise WaitCancelled("The session was lost.")
            time.sleep(min(left, POLL_SECS))


class RecoveringSessionCreator(v1.train.SessionCreator):
    """Makes the sessions of a process in a cluster, the first one and those after a loss."""

    def __init__(
        self,
        creator: v1.train.SessionCreator,
        restarts: Restarts,
        config: RunConfig,
        is_over: Callable[[], bool],
    ):
        """Takes who makes the sessions.

        Args:
          creator: Makes one session, when all parameter servers can be reached.
          restarts: Counts.
          config: Of this process.
          is_over: Asked while something is waited for: whether no session is needed any more.
        """
        self._creator = creator
        self._restarts = restarts
        self._config = config
        self._is_over = is_over
        self._is_first = True

    def create_session(self) -> v1.Session:
        """Returns a session that is ready to train.

        Raises:
          ClusterError: A server is absent, or sessions were lost too often.
          WaitCancelled: `is_over` said so.
        """
        while True:
            if not self._is_first:
                self._restarts.pause(self._is_over)
            self._is_first = False
            wait_for_parameter_servers(self._config, self._is_over)
            with contextlib.suppress(*_LOST), self._restarts.noting():
                return self._creator.create_session()


def _told(error: tf.errors.OpError) -> str:
    """The name of an error and the first line that says something."""
    lines = [line for line in error.message.splitlines() if line and line != _GRAPH_ERROR]
    telling = (line for line in lines if any(map(str.isalpha, line)))
    return f"{type(error).__name__}: {next(telling, 'no message')}"
