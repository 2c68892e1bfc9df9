"""Signals: SIGINT and SIGTERM end training between two steps, after a save.

Owns the signal handlers while training runs in the main thread. The first signal sets a flag, which
the training loop reads between steps; no file is written inside a handler. The second signal ends
the process at once. The same signal within `_SAME_SECS` does not count as a second one: a program
around this one may pass on a Ctrl-C that the terminal has sent to both. A Python handler cannot run
while TensorFlow computes, so a small thread also reads signals from a pipe. It answers at once even
in the middle of a long step.
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
"""Seconds within which a repeated signal counts as the first one."""


class Interruption:
    """The request of a signal to stop training.

    Attributes:
      signum: The first signal received; None before it.
      requested_at: Time of that signal, by `time.monotonic`; None before it.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.requested_at: float | None = None

    def request(self, signum: int) -> None:
        """Asks training to stop after the current step."""
        if self.signum is None:
            self.requested_at = time.monotonic()
            self.signum = signum


@contextlib.contextmanager
def interruptions(plan: str = "saving after this step") -> Iterator[Interruption]:
    """Listens to SIGINT and SIGTERM inside the context; previous handlers are restored after it.

    Outside of the main thread no handler is installed. A signal that the process ignores stays
    ignored.

    Args:
      plan: Reaction to the first signal, as the user reads it.

    Yields:
      The Interruption, to be read between two steps.
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
    """Runs the thread that reads signals from a pipe; the interpreter fills it at once."""
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
    """Records the first signal and ends the process at the second, until the pipe is closed."""
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
