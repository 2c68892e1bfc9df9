"""Signals: SIGINT and SIGTERM end training between two steps, after a save.

Owns the handlers while training runs in the main thread. The first signal only sets a flag, which
the training loop reads between steps; no file is written inside a handler. The second one ends the
process at once, unless it is the first one again: a Ctrl-C of the terminal that a program around
this one passes on as well. A Python handler cannot run while TensorFlow computes, so signals are
also read from a pipe by a small thread: it answers at once even in the middle of a long step.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from replicate.exit_codes import signal_exit_code

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STANDARD_ERROR = 2
_SAME_SECS = 0.5
"""How soon after it the same signal counts as one with the first."""


class Interruption:
    """Whether, and by which signal, training was asked to stop.

    Attributes:
      signum: The first signal received, None so far.
      requested_at: When that was, by `time.monotonic`; None so far.
    """

    def __init__(self) -> None:
        """Starts without a signal."""
        self.signum: int | None = None
        self.requested_at: float | None = None

    def request(self, signum: int) -> None:
        """Asks training to stop after the present step."""
        if self.signum is None:
            self.requested_at = time.monotonic()
            self.signum = signum


@contextlib.contextmanager
def interruptions(plan: str = "saving after this step") -> Iterator[Interruption]:
    """Listens to SIGINT and SIGTERM inside the context; previous handlers are restored after it.

    In another than the main thread nothing is installed, and a signal that the process was started
    to ignore stays ignored.

    Args:
      plan: What is done at the first signal, in the words in which the user is told.

    Yields:
      The Interruption to look at between two steps.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    with _answered_at_once(interruption, plan):
        try:
            for number, handler in previous.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, lambda signum, _: interruption.request(signum))
            yield interruption
        finally:
            for number, handler in previous.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def _answered_at_once(interruption: Interruption, plan: str) -> Iterator[None]:
    """Runs the thread that reads signals from a pipe, which the interpreter fills at once."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_watch, args=(reader, interruption, plan), name="signals", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch(reader: int, interruption: Interruption, plan: str) -> None:
    """Notes the first signal and ends the process at the second, until the pipe is closed."""
    first, came_at = None, 0.0
    while number := os.read(reader, 1):
        signum = number[0]
        if signum not in _SIGNALS:
            continue
        if signum == first and time.monotonic() - came_at < _SAME_SECS:
            continue
        if first is not None:
            _tell("Ended at once.")
            os._exit(signal_exit_code(signum))
        first, came_at = signum, time.monotonic()
        interruption.request(signum)
        name = signal.Signals(signum).name
        _tell(f"{name}: {plan}. A second signal ends the process at once.")


def _tell(text: str) -> None:
    """Writes a line to standard error, below a progress bar if there is one."""
    with contextlib.suppress(OSError):
        os.write(_STANDARD_ERROR, f"\n{text}\n".encode())
