"""The interface between the launcher and the code that starts processes.

`Supervisor` decides when a process starts and when it must end; a `Backend` starts it.
`LocalBackend` (in `local_backend.py`) starts processes on this machine. To start them elsewhere,
over ssh or through a scheduler, write a `Backend` and a `ProcessHandle` in a new module and pass
the backend to `Supervisor`. Both are protocols: there is nothing to inherit from.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from replicate.launch.plan import Task


@dataclasses.dataclass(frozen=True)
class ProcessPlan:
    """Everything that a backend needs to start the process of one task.

    Attributes:
      task: The task. Its address says on which host its server will listen.
      command: Program and arguments. No shell may interpret them.
      environment: The whole environment of the process, TF_CONFIG included.
      bar_columns: Width of the progress bar that the process may draw on its standard error, in
        characters; 0 for none. A backend may ignore it.
    """

    task: Task
    command: Sequence[str]
    environment: Mapping[str, str]
    bar_columns: int = 0


class ProcessHandle(Protocol):
    """A process that a backend has started."""

    @property
    def label(self) -> str:
        """Name of the process in the launcher's output, such as "process 13978"."""

    @property
    def pid(self) -> int | None:
        """Number of the process on this machine; None if there is none here."""

    @property
    def stdout(self) -> int:
        """File descriptor from which the launcher reads the standard output."""

    @property
    def stderr(self) -> int:
        """File descriptor from which the launcher reads the standard error."""

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs.

        If a signal ended the process, the code is 128 + the number of the signal.
        """

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process and its children; does nothing if they have ended.

        Args:
          number: SIGINT or SIGTERM asks the process to end, SIGKILL forces it to.
        """

    def kill(self) -> None:
        """Kills what is left of the process and its children, and waits until the process ended."""

    def close(self) -> None:
        """Closes `stdout` and `stderr`."""


class Backend(AbstractContextManager[object], Protocol):
    """Starts processes. It is entered before the first one starts and left after the last ended."""

    def start(self, plan: ProcessPlan) -> ProcessHandle:
        """Starts a process.

        Raises:
          OSError: The process cannot be started.
        """
