"""Sessions on the servers of a cluster that do not hang when a server is lost.

Owns the time limits of the first answer and of the close of a session, and the threads in which
calls to servers run. `session.py` and `worker_session.py` make such sessions; `connections.py`
ends the calls that still hang when the process ends.
"""

import atexit
import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

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
        """Closes the session because a thread has failed: `run` raises its error from now on."""
        self._failure = error
        self._is_lost = self._is_lost or isinstance(error, LOST)
        self.close()

    def first_run(self, fetch: Tensor) -> Any:
        """Returns the value of a Tensor; the session connects to its servers.

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
    """Waits until all calls to servers have returned, by default for `END_SECS` at most."""
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
