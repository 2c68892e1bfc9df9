"""Processes on this machine: the launcher's own backend.

Each process is the leader of a new process group. Its output comes through pipes, or through a
pseudo-terminal if it may draw a progress bar. A guard process kills the groups that are left if the
launcher itself is killed.
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
from collections.abc import Callable, Mapping, Sequence
from typing import final

from replicate.launch import guard
from replicate.launch.backend import ProcessPlan

_ROWS = 24


@final
class LocalBackend:
    """Starts processes on this machine; a context manager."""

    def __init__(self, grace_secs: float):
        """Keeps the setting.

        Args:
          grace_secs: Seconds between SIGTERM and SIGKILL if the launcher is killed, and the guard
            has to end the processes.
        """
        self._grace_secs = grace_secs
        self._guard: Guard | None = None

    def start(self, plan: ProcessPlan) -> "LocalProcess":
        """Starts a process.

        Raises:
          OSError: The program cannot be run.
          ValueError: The backend has not been entered.
        """
        if self._guard is None:
            raise ValueError(
                f"Cannot start {plan.task}: the LocalBackend has not been entered, so the process "
                "would survive if this one is killed. Start it inside `with backend:`."
            )
        process = LocalProcess(
            plan.command, plan.environment, plan.bar_columns, on_killed=self._guard.remove
        )
        self._guard.add(process.pid)
        return process

    def __enter__(self) -> "LocalBackend":
        self._guard = Guard(self._grace_secs)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._guard is not None:
            self._guard.__exit__(*exception)
        self._guard = None


@final
class LocalProcess:
    """A child process in a process group of its own: the local `ProcessHandle`.

    Attributes:
      stdout: File descriptor of its standard output.
      stderr: File descriptor of its standard error.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        bar_columns: int = 0,
        on_killed: Callable[[int], None] | None = None,
    ):
        """Starts the process.

        Args:
          command: Program and arguments. No shell interprets them.
          environment: Its whole environment.
          bar_columns: If not 0, its standard error is a terminal of this width, in characters.
          on_killed: Called with its number by `kill`, when nothing of its group is left.

        Raises:
          OSError: The program cannot be run.
        """
        self._on_killed = on_killed
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = _open_terminal(bar_columns) if bar_columns else os.pipe()
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
        """Number of the process, and of its process group."""
        return self._child.pid

    @property
    def label(self) -> str:
        """Name of the process in the launcher's output."""
        return f"process {self.pid}"

    def poll(self) -> int | None:
        """Returns its exit code, 128 + signal number if a signal ended it, None while it runs."""
        code = self._child.poll()
        return code if code is None or code >= 0 else 128 - code

    def send_signal(self, number: int) -> None:
        """Sends a signal to the whole group; does nothing if the group has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kills what is left of the group, and waits for the process."""
        self.send_signal(signal.SIGKILL)
        self._child.wait()
        if self._on_killed is not None:
            self._on_killed(self.pid)

    def close(self) -> None:
        """Closes `stdout` and `stderr`."""
        os.close(self.stdout)
        os.close(self.stderr)


@final
class Guard:
    """The guard process (`guard.py`), which ends the children if this process is killed.

    A context manager: leaving it ends the guard.
    """

    def __init__(self, grace_secs: float):
        """Starts the guard. Children have `grace_secs` between SIGTERM and SIGKILL."""
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", guard.__file__, str(grace_secs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def add(self, pid: int) -> None:
        """Adds a process group to those that the guard would end."""
        self._write(f"+{pid}\n")

    def remove(self, pid: int) -> None:
        """Removes a process group, which has ended."""
        self._write(f"-{pid}\n")

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._child.communicate()

    def _write(self, text: str) -> None:
        pipe = self._child.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(text)
                pipe.flush()


def _open_terminal(columns: int) -> tuple[int, int]:
    """Opens a raw pseudo-terminal, which passes text on unchanged: our end, the child's end."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    return ours, theirs
