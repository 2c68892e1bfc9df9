"""Regrouping: equal workers go on without those that are lost, and later with them again.

When a worker is lost, the others save the state of their newest step and end, since a TensorFlow
server can neither be stopped nor used after its collectives have failed. Those that are left start
as a new group, on new ports. A lost worker that may be restarted comes back later: the group is
asked to save and to end, and starts again with it.
"""

import math
import signal
import time
from collections.abc import Callable, Sequence
from typing import final

from replicate.exit_codes import ExitCode
from replicate.launch.task_state import TaskState

LEAVE_SECS = 10.0
"""Seconds for all to end after the newest one that has, when all are asked to: the chief saves."""

MISS_SECS = 5.0
"""Seconds for the others to miss a lost one by themselves, before they are asked to end."""

FOLLOW_SECS = 4.0
"""Seconds for all to end after the newest one that has missed a lost one: the state is saved."""

HANG_SECS = 60.0
"""Seconds for the first one to end that was asked to, since a lost one was not missed."""

STEADY_SECS = 30.0
"""Seconds from the start of a group until lost workers come back, at least."""

_STOPPED = "T"
"""State of a process that a signal has stopped, as /proc tells it."""

_ABORTED = 128 + signal.SIGABRT
"""Code of a process that TensorFlow aborts, as one that ends while calls to a lost one hang."""

_MOST_VAIN = 10
"""Groups, one after the other, that may end soon although none of their members is lost."""

_LONG_SECS = 300.0
"""Seconds after which the end of a group is not soon."""


@final
class Regrouping:
    """Decides which workers train together. The supervisor starts and ends them.

    Attributes:
      members: The workers of the present group, by rank.
    """

    def __init__(
        self,
        members: Sequence[TaskState],
        min_workers: int,
        log: Callable[[str], None],
    ):
        """Begins with the group of all workers.

        Args:
          members: As the attribute.
          min_workers: Fewest workers that train, ≥ 1.
          log: Shows a line.
        """
        self.members = list(members)
        self._lost: list[TaskState] = []
        self._min_workers = min_workers
        self._log = log
        self._vain = 0
        self._begin_group()

    def _begin_group(self) -> None:
        """Forgets how the group before has ended."""
        self._is_ending = self._has_cause = self._has_said = self._has_asked = False
        self._ask_at = self._ends_by = math.inf
        self._patience_secs = FOLLOW_SECS
        self._killed: list[TaskState] = []

    def leave(self, state: TaskState, code: int, restarts_at: Callable[[], float]) -> bool:
        """Takes note that the process of a member has ended with a code that allows a restart.

        `restarts_at` plans a restart, and returns its time; infinite for none.

        Returns:
          True if the others may go on, or wait for it; False if too few are left, or if groups end
          again and again although none of their members is lost.
        """
        is_abort_at_end = self._is_ending and code == _ABORTED
        self._is_ending = True
        self._has_cause = self._has_cause or time.monotonic() - state.started_at >= _LONG_SECS
        now = time.monotonic()
        if code in (ExitCode.CLUSTER_TROUBLE, ExitCode.TERMINATED) or is_abort_at_end:
            self._ask_by(now + FOLLOW_SECS / 2)
            self._ends_by = now + self._patience_secs
        else:
            self._has_cause = True
            self._ask_by(now + MISS_SECS)
            self.members.remove(state)
            self._lost.append(state)
            state.back_at = restarts_at()
        back = [each for each in self._lost if each.back_at < math.inf]
        return self._vain < _MOST_VAIN and len(self.members) + len(back) >= self._min_workers

    def next_group(self) -> list[TaskState] | None:
        """Returns the members of a new group, once it may start; None before."""
        if not self._is_ending or any(each.process is not None for each in self.members):
            return None
        back = self._back()
        if len(self.members) + len(back) < self._min_workers:
            self._say_wait()
            return None
        self._vain = 0 if self._has_cause else self._vain + 1
        for each in back:
            self._lost.remove(each)
            each.back_at = math.inf
        self.members += back
        self._begin_group()
        return self.members

    def end_stragglers(self) -> None:
        """Kills members that are stopped, and those that do not end although others have.

        Members that have not begun to train do not miss a lost one, and are asked to end.
        """
        if time.monotonic() >= self._ask_at:
            self._ask_to_end()
            self._ends_by = min(self._ends_by, time.monotonic() + HANG_SECS)
        is_late = time.monotonic() >= self._ends_by
        for each in self.members:
            if each.process is None or each in self._killed:
                continue
            if is_late or _is_stopped(each.process.pid):
                cause = "does not leave" if is_late else "is stopped"
                self._log(f"{each.name} {cause}: it is ended by force, and the others go on")
                each.process.send_signal(signal.SIGKILL)
                self._killed.append(each)

    def begin_growth(self) -> None:
        """Asks the members to save and to end, if a lost one may come back to a steady group."""
        back = self._back()
        running = [each.started_at for each in self.members if each.process is not None]
        newest = max(running, default=math.inf)
        if self._is_ending or not back or time.monotonic() < newest + STEADY_SECS:
            return
        self._is_ending = self._has_cause = True
        self._patience_secs = LEAVE_SECS
        names = ", ".join(each.name for each in back)
        self._log(f"{names} can come back: the others save, and all start again together")
        self._ask_to_end()

    def _ask_by(self, moment: float) -> None:
        """Plans to ask those that are left to end: once, so that they can save."""
        if not self._has_asked:
            self._ask_at = min(self._ask_at, moment)

    def _ask_to_end(self) -> None:
        self._has_asked, self._ask_at = True, math.inf
        for each in self.members:
            if each.process is not None:
                each.process.send_signal(signal.SIGTERM)

    def _back(self) -> list[TaskState]:
        return [each for each in self._lost if each.back_at <= time.monotonic()]

    def _say_wait(self) -> None:
        if not self._has_said:
            self._has_said = True
            names = ", ".join(each.name for each in self._lost if each.back_at < math.inf)
            left = f"{len(self.members)} left, and --min_workers={self._min_workers}"
            self._log(f"{left}: waiting for {names}")


def _is_stopped(pid: int | None) -> bool:
    """Returns True if a process of this machine is stopped; False where /proc does not tell it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == _STOPPED
    except OSError:
        return False
