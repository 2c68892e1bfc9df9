"""Sessions: creation, initial state, and the check that everything is initialised.

Owns the order in which a new session gets its state: variables (from a checkpoint or initialisers),
then local variables and tables, then the input at its position. Training, evaluation and prediction
use the same creator. After a loss the creator makes another session, and looks for the newest
checkpoint again. It saves nothing.
"""

import atexit
import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from model_deploy import local_devices
from replicate._types import Graph, Tensor
from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.log import log

v1 = tf.compat.v1

CONNECT_SECS = 30
"""Seconds that the servers of a session may take for their first answer."""

CLOSE_SECS = 2
"""Seconds that the caller waits for a session on a server to close, unless a server is lost."""

LAST_RUN_SECS = 0.5
"""Seconds that the last operation of a lost session has before the close cancels all others."""

END_SECS = 3
"""Seconds that a process waits at its end for calls to servers to return."""

LOST = (tf.errors.AbortedError, tf.errors.UnavailableError)
"""Errors of a session one of whose servers is lost."""

CALLING = "replicate: a call to a server"
"""Name of the threads that call servers."""


class SilentServerError(tf.errors.UnavailableError):
    """A server of a new session did not answer in time."""

    def __init__(self, secs: float):
        """Makes the text of the error.

        Args:
          secs: Seconds that the server had.
        """
        super().__init__(
            None, None, f"A server did not answer a new session within {secs:g} seconds."
        )


class ServerSession(v1.Session):
    """A session on a server whose first run and whose close have a time limit.

    A session of TensorFlow would wait without a limit for other servers that it uses and that are
    lost. If a run has failed because of such a server, the close is not waited for at all.

    Attributes:
      before_close: Operation to run before the close of a session that has lost a server, or None.
    """

    before_close: Any = None
    _is_lost = False
    _failure: Exception | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        """Makes a session; takes what `tf.compat.v1.Session` takes."""
        self._closing = threading.Lock()
        super().__init__(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what `tf.compat.v1.Session.run` returns.

        Raises:
          OpError: The step has failed, or `fail` has closed the session with this error.
        """
        try:
            return super().run(*args, **kwargs)
        except LOST:
            self._is_lost = True
            raise
        except (RuntimeError, tf.errors.CancelledError) as error:  # The session was closed.
            if self._failure is None:
                raise
            raise self._failure from error

    def fail(self, error: Exception) -> None:
        """Closes the session because a thread has failed: `run` raises its error from now on.

        Args:
          error: The error of the thread.
        """
        self._failure = error
        self._is_lost = self._is_lost or isinstance(error, LOST)
        self.close()

    def first_run(self, fetch: Tensor) -> Any:
        """Returns the value of a Tensor; the session connects to its servers.

        Args:
          fetch: Tensor to run.

        Raises:
          SilentServerError: A server did not answer within `CONNECT_SECS`.
        """
        answers = queue.SimpleQueue[Any]()
        _start(_answer, self, fetch, answers)
        try:
            value, error = answers.get(timeout=CONNECT_SECS)
        except queue.Empty:
            _return_before_the_end()
            raise SilentServerError(CONNECT_SECS) from None
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Closes the session, in the background if that takes long."""
        self._call(self._close)

    def __del__(self) -> None:
        """Closes and frees the session, in the background if that takes long."""
        self._call(self._free)

    def _call(self, function: Callable[[], None]) -> None:
        """Calls a function, and goes on without it after a time."""
        if sys.is_finalizing():  # A thread that is started now would hang.
            return
        call = _start(function)
        call.join(0 if self._is_lost else CLOSE_SECS)
        if call.is_alive():
            _return_before_the_end()

    def _close(self) -> None:
        with self._closing:  # Another close must not cancel the last operation at once.
            last, self.before_close = self.before_close, None
            if self._is_lost and last is not None:
                _start(self._run_last, last).join(LAST_RUN_SECS)
        super().close()

    def _run_last(self, operation: Any) -> None:
        with contextlib.suppress(tf.errors.OpError, RuntimeError):
            super().run(operation)

    def _free(self) -> None:
        """Frees the session after its close: TensorFlow aborts if that happens during a close."""
        with contextlib.suppress(Exception):
            self._close()
        super().__del__()


def has_hanging_calls() -> bool:
    """Returns True if a thread is in a call to a server; at the end, the server does not answer."""
    return bool(_calls())


def _calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == CALLING]


def _return_before_the_end() -> None:
    """Makes the process wait for hanging calls when it ends."""
    atexit.unregister(wait_for_calls)
    atexit.register(wait_for_calls)


def wait_for_calls(limit_secs: float | None = None) -> None:
    """Waits until all calls to servers have returned.

    Args:
      limit_secs: Longest time to wait, in seconds; None means `END_SECS`.
    """
    deadline = time.monotonic() + (END_SECS if limit_secs is None else limit_secs)
    for call in _calls():
        call.join(max(0, deadline - time.monotonic()))


def _start(call: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=call, args=args, name=CALLING, daemon=True)
    thread.start()
    return thread


def _answer(session: v1.Session, fetch: Tensor, answers: "queue.SimpleQueue[Any]") -> None:
    """Runs a fetch and puts (value, None) or (None, error) into a queue."""
    try:
        answers.put((session.run(fetch), None))
    except Exception as error:
        answers.put((None, error))


class RestoringSessionCreator(v1.train.SessionCreator):
    """Creator of sessions that start at the newest checkpoint."""

    def __init__(
        self,
        scaffold: v1.train.Scaffold,
        saver: v1.train.Saver,
        find_checkpoint: Callable[[], str | None],
        session_config: v1.ConfigProto | None = None,
        position: InputPosition | None = None,
        target: str = "",
        keeps_values: bool = True,
        load: Callable[[v1.Session], None] | None = None,
        show_start: Callable[[str], None] | None = None,
    ):
        """Stores the parts of a session; makes none yet.

        Args:
          scaffold: Initialisers and checks of the default graph.
          saver: Loads the variables.
          find_checkpoint: Called for every session. Returns the path to load; None to initialise.
          session_config: Options of the session; None for soft placement and defaults.
          position: The input, which starts at the position of the checkpoint.
          target: Address of the server that runs the session, "" for this process.
          keeps_values: If True, variables on a server that are initialised already keep their
            values, because other processes continue to train them.
          load: Assigns values to variables after the initialisers ran; not called after a load.
          show_start: Called with a text that says where the variables get their values from.
        """
        self._keeps_values = keeps_values
        self._target = target
        self._graph: Graph = v1.get_default_graph()
        self._scaffold = scaffold
        self._saver = saver
        self._find_checkpoint = find_checkpoint
        self._config = complete_config(session_config)
        self._position = position
        self._load = load
        self._show_start = show_start

    def create_session(self) -> v1.Session:
        """Returns a session in which every variable, table and iterator has its state.

        Raises:
          CheckpointError: The checkpoint to start from cannot be loaded.
          RuntimeError: Something is still uninitialised at the end.
        """
        with self._graph.as_default():
            self._scaffold.finalize()
            kind = ServerSession if self._target else v1.Session
            session = kind(self._target, graph=self._graph, config=self._config)
            try:
                self._fill(session)
            except BaseException:
                session.close()
                raise
        return session

    def _fill(self, session: v1.Session) -> None:
        scaffold = self._scaffold
        is_alive = self._is_alive(session)
        checkpoint = None if is_alive else self._find_checkpoint()
        if self._show_start is not None and not is_alive:
            self._show_start(
                f"restoring {os.path.basename(checkpoint)}"
                if checkpoint
                else "initializing the variables"
            )
        if is_alive:
            log.info("The variables have values: going on with them.")
        elif checkpoint is None:
            session.run(scaffold.init_op, feed_dict=scaffold.init_feed_dict)
            if scaffold.init_fn is not None:
                scaffold.init_fn(session)
            if self._load is not None:
                self._load(session)
        else:
            restore_variables(session, self._saver, checkpoint)
        _require_ready(session, scaffold.ready_for_local_init_op)
        session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
        _require_ready(session, scaffold.ready_op)
        if self._position is not None:
            self._begin_input(self._position, session, checkpoint, is_alive)

    def _begin_input(
        self, position: InputPosition, session: v1.Session, checkpoint: str | None, is_alive: bool
    ) -> None:
        """Starts the input at the position that fits the variables.

        If other processes continued to train while this process was started again, the position of
        the newest checkpoint is the nearest one.
        """
        if is_alive and position.has_begun:
            position.begin_again(session)
            return
        if is_alive:
            with contextlib.suppress(CheckpointError):
                checkpoint = self._find_checkpoint()
        position.begin(session, checkpoint)

    def _is_alive(self, session: v1.Session) -> bool:
        """Returns True if the variables are on a server, are initialised, and keep their values."""
        check = self._scaffold.ready_for_local_init_op
        if not self._target or check is None:
            return False
        has_values = not session.first_run(check).size
        return has_values and self._keeps_values


def complete_config(session_config: v1.ConfigProto | None) -> Any:
    """Returns a copy of the options that has the number of logical CPU devices of the process.

    Without that number, TensorFlow gives a session one CPU device. The number comes from the
    settings of TensorFlow, so that no GPU is initialised. Logical GPUs are not copied: options of a
    session split GPUs by `gpu_options.experimental.virtual_devices`.

    Args:
      session_config: A ConfigProto, or None for one that allows soft placement.
    """
    completed = v1.ConfigProto(allow_soft_placement=True)
    if session_config is not None:
        completed.CopyFrom(session_config)
    if "CPU" not in completed.device_count:
        completed.device_count["CPU"] = max(1, len(local_devices("CPU")))
    return completed


def _require_ready(session: v1.Session, uninitialized: Tensor) -> None:
    """Raises RuntimeError if the scaffold's check names variables without a value."""
    names = [] if uninitialized is None else list(session.run(uninitialized).ravel())
    if names:
        shown = ", ".join(name.decode() for name in names)
        raise RuntimeError(
            f"The model cannot start: no value for {shown}. Every variable must be in "
            "GLOBAL_VARIABLES or LOCAL_VARIABLES, and be initialised by the Scaffold's init_op or "
            "local_init_op."
        )
