"""Recovery: makes a new session after each loss, a bounded number of times.

Owns the count of lost sessions, the pause before the next session, and the error after too many
losses. TensorFlow's monitored session asks the creator of this module for a new session after every
loss, without a limit; the creator sets the limit. `session.py` and `worker_session.py` initialise
a session, `watchdog.py` finds steps that hang.

Each input iterator has a thread that tunes the pipeline at intervals that grow to a minute. An
iterator that is freed wakes this thread and waits for its end, but in TensorFlow up to 2.21 the
thread sometimes falls asleep again at once. If that happens in the close of a session on a server,
the server makes no other session before the interval is over. So the iterators of a lost session
are freed before its close.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate.errors import ClusterError
from replicate.estimator.cluster.connections import dead_connection
from replicate.estimator.cluster.server_session import LOST, ServerSession, SilentServerError
from replicate.estimator.cluster.servers import (
    POLL_SECS,
    WaitCancelled,
    poll_secs,
    wait_for_parameter_servers,
)
from replicate.estimator.cluster.worker_session import ChiefNotReadyError
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.roles import CHIEFS

v1 = tf.compat.v1


def release_iterators() -> Any:
    """Returns an operation that frees the input of all iterators of the default graph.

    Each gets an empty input of the same structure. In a session whose other servers are lost, the
    operation can still run, since it needs nothing but the devices of the iterators.
    """
    operations = v1.get_default_graph().get_operations()
    starts = [each for each in operations if each.type == "MakeIterator"]
    with v1.name_scope("replicate_release/"):
        return tf.group(*(_emptied(start) for start in starts if _has_structure(start)))


def _has_structure(start: Any) -> bool:
    return start.inputs[1].op.type in ("Iterator", "IteratorV2")


def _emptied(start: Any) -> Any:
    """Returns an operation that gives the iterator that `start` starts an empty input."""
    dataset, iterator = start.inputs
    structure = {name: iterator.op.get_attr(name) for name in ("output_types", "output_shapes")}
    with v1.device(start.device):
        none = tf.constant(0, tf.int64)
        empty = tf.raw_ops.TakeDataset(input_dataset=dataset, count=none, **structure)
        return tf.raw_ops.MakeIterator(dataset=empty, iterator=iterator)


MAX_PAUSE_SECS = 60

CHIEF_POLL_SECS = 1.0
"""Seconds between two checks that the chief has initialised the model, at most."""

_GRAPH_ERROR = "Graph execution error:"
_ORIGIN = re.compile(r"(?:[A-Z_]+: )?From /job:(?P<job>\w+)/replica:0/task:(?P<task>\d+):")


class Restarts:
    """Count of the sessions that were lost since training last reached a new highest step."""

    def __init__(self, config: RunConfig, readings: StepReadings):
        self._config = config
        self._readings = readings
        self._furthest = 0
        self._count = 0
        self._attempt_at = time.monotonic()
        self._cause = "its hooks could not be started"

    @contextlib.contextmanager
    def record_cause(self) -> Iterator[None]:
        """Records the cause if the session inside the context is lost, and passes on the error."""
        try:
            yield
        except LOST as error:
            self._cause = _describe(error, self._config)
            raise

    def begin_attempt(self) -> None:
        """Records that a session is made now."""
        self._attempt_at = time.monotonic()

    def pause(self, should_cancel: Callable[[], bool]) -> None:
        """Waits before a new session is made.

        Two attempts begin 1, 2, 4 ... 60 seconds apart at least. So there is no wait after the loss
        of a session that was used for longer.

        Raises:
          ClusterError: The limit of lost sessions is reached, or workers train by all-reduce: they
            start together only.
          WaitCancelled: `should_cancel` returned True.
        """
        config = self._config
        if config.all_reduce is not None:
            raise ClusterError(
                f"{config.task_type} {config.task_id} ends because its session was lost "
                f"({self._cause}): workers without parameter servers start together only. Start "
                "all of them again; training continues from the newest checkpoint."
            )
        if self._readings.step > self._furthest:
            self._furthest = self._readings.step
            self._count = 0
        self._count += 1
        if self._count > config.max_restarts:
            raise ClusterError(
                f"{config.task_type} {config.task_id} gives up at step {self._furthest}: its "
                f"session was lost {self._count} times without a step beyond that, and "
                f"max_restarts is {config.max_restarts}. The last cause was {self._cause}. Look "
                "at the logs of the parameter servers."
            )
        deadline = self._attempt_at + min(2.0 ** (self._count - 1), MAX_PAUSE_SECS)
        log.warning(
            "The session was lost (%s). Making a new one in %.1f seconds; restart %d of %d.",
            self._cause,
            max(0.0, deadline - time.monotonic()),
            self._count,
            config.max_restarts,
        )
        while not should_cancel():
            left = deadline - time.monotonic()
            if left <= 0:
                self.begin_attempt()
                return
            time.sleep(min(left, POLL_SECS))
        raise WaitCancelled("The session was lost.")


class RecoveringSessionCreator(v1.train.SessionCreator):
    """Creator of the sessions of a process in a cluster: the first one and those after losses."""

    def __init__(
        self,
        creator: v1.train.SessionCreator,
        restarts: Restarts,
        config: RunConfig,
        should_cancel: Callable[[], bool],
        show_start: Callable[[str], None] | None = None,
    ):
        """Stores the parts, and adds an operation to the default graph.

        The creator is called when all parameter servers can be reached; `show_start`, in a worker,
        with a text that says which process the wait is for.
        """
        self._creator = creator
        self._restarts = restarts
        self._config = config
        self._should_cancel = should_cancel
        self._show_start = show_start
        self._is_first = True
        self._release = release_iterators() if config.master else None

    def create_session(self) -> v1.Session:
        """Returns a session that is ready to train.

        Raises:
          ClusterError: A server is absent, a connection to one is dead, the chief has not
            initialised the model in time, or too many sessions were lost.
          WaitCancelled: `should_cancel` returned True.
        """
        while True:
            if not self._is_first:
                self._restarts.pause(self._should_cancel)
            self._is_first = False
            with contextlib.suppress(*LOST), self._restarts.record_cause():
                try:
                    session = self._attempt()
                except SilentServerError:
                    self._require_live_connections()
                    raise
                if isinstance(session, ServerSession):
                    session.before_close = self._release
                return session

    def _attempt(self) -> v1.Session:
        """Waits for the parameter servers, and in a worker for the chief, and makes a session."""
        if self._show_start is not None and not self._config.is_chief:
            self._show_start(f"waiting for {_name_of_chief(self._config)}")
        started: float | None = None
        while True:
            wait_for_parameter_servers(self._config, self._should_cancel)
            if started is None:
                started = time.monotonic()
                self._restarts.begin_attempt()
            try:
                return self._creator.create_session()
            except ChiefNotReadyError:
                self._wait_for_chief(time.monotonic() - started)

    def _wait_for_chief(self, waited: float) -> None:
        """Waits before the next look at the model, which the chief has not initialised yet."""
        config = self._config
        if self._should_cancel():
            raise WaitCancelled("No longer waiting for the chief.")
        if waited > config.session_creation_timeout_secs:
            raise ClusterError(
                f"{config.task_type} {config.task_id} has waited "
                f"{config.session_creation_timeout_secs:g} seconds for {_name_of_chief(config)} to "
                "initialise the model. Start the chief, or look for its error."
            )
        time.sleep(poll_secs(waited, CHIEF_POLL_SECS))

    def _require_live_connections(self) -> None:
        """Raises ClusterError if a connection to a parameter server is dead.

        A new session of this process would use the same connection.
        """
        dead = dead_connection(self._config)
        if dead is not None:
            raise ClusterError(
                f"{self._config.task_type} {self._config.task_id} gets no answer to a new session, "
                f"and {dead.advice}; training continues from the newest checkpoint."
            )


@contextlib.contextmanager
def last_loss_named(config: RunConfig) -> Iterator[None]:
    """Raises the loss of a server after the last step, when no new session is made, by its name.

    Raises:
      ClusterError: A server was lost inside the context.
    """
    try:
        yield
    except LOST as error:
        if not config.master:
            raise
        raise ClusterError(
            f"{config.task_type} {config.task_id} has lost its session at the end of training, "
            f"and its last step may not be saved ({_describe(error, config)}). Start it again; "
            "training continues from the newest checkpoint."
        ) from error


def _describe(error: tf.errors.OpError, config: RunConfig) -> str:
    """Returns the name of an error and the first line of its message that has letters.

    If that line only tells from which task the error comes, the task is named with its address, and
    the next line follows.
    """
    lines = [line for line in error.message.splitlines() if line and line != _GRAPH_ERROR]
    telling = [line for line in lines if any(map(str.isalpha, line))] or ["no message"]
    origin = _ORIGIN.fullmatch(telling[0])
    if origin is not None and len(telling) > 1:
        job, index = origin["job"], int(origin["task"])
        addresses = config.cluster.jobs.get(job, ())
        address = f" at {addresses[index]!r}" if index < len(addresses) else ""
        telling = [f"{job} {index}{address}: {telling[1]}"]
    return f"{type(error).__name__}: {telling[0]}"


def _name_of_chief(config: RunConfig) -> str:
    for job in CHIEFS:
        if job in config.cluster.jobs:
            return f"{job} 0 at {config.cluster.jobs[job][0]!r}"
    return "the chief"
