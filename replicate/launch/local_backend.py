"""Processes: one task of the cluster as a child of this process, and the guard beside all of them.

Owns how a child is started, in a process group of its own, with pipes (or a terminal, for a
progress bar) as its output, how it is signalled, and that nothing of it is left. When to do which
is decided in `supervisor.py`.
"""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Mapping, Sequence
from types import TracebackType

from replicate.launch import guard

_CHUNK = 1 << 16
_ROWS = 24


class Process:
    """A child in a process group of its own."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], bar_columns: int = 0
    ):
        """Starts it.

        Args:
          command: Program and arguments; no shell reads them.
          environment: All of its environment.
          bar_columns: If not 0, its standard error looks like a terminal of that width.
        """
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = _terminal(bar_columns) if bar_columns else os.pipe()
        try:
            self._child = subprocess.Popen(  # noqa: S603
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(stdout)
            os.close(stderr)

    @property
    def pid(self) -> int:
        """Its number, which is that of its group as well."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, 128 + signal number if a signal has ended it, None while it runs."""
        code = self._child.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Sends a signal to the whole group; one that has ended does not mind."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Ends by force what is left of the group, and waits for the child."""
        self.signal(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        """Gives its output up."""
        os.close(self.stdout)
        os.close(self.stderr)


def read(stream: int) -> bytes:
    """Returns the next bytes of a child's stream, b"" at its end."""
    try:
        return os.read(stream, _CHUNK)
    except OSError:  # Linux has it so for a terminal that nobody holds any more.
        return b""


class Guard:
    """The process that ends the children if this one is killed before it can; a context manager."""

    def __init__(self, grace_secs: float):
        """Starts it.

        Args:
          grace_secs: Seconds that children have to end by themselves.
        """
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", guard.__file__, str(grace_secs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def started(self, pid: int) -> None:
        """Tells it of a group that has been started."""
        self._tell(f"+{pid}\n")

    def ended(self, pid: int) -> None:
        """Tells it of a group that has ended."""
        self._tell(f"-{pid}\n")

    def __enter__(self) -> "Guard":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._child.communicate()

    def _tell(self, text: str) -> None:
        pipe = self._child.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(text)
                pipe.flush()


def _terminal(columns: int) -> tuple[int, int]:
    """A new terminal that changes nothing of what is written to it: our end, the child's end."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    return ours, theirs
