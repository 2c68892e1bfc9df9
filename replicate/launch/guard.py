"""The guard: a process that outlives the launcher for as long as it takes to end its children.

Its standard input is a pipe from the launcher, with lines "+PID" and "-PID" for each process group
that was started and that has ended. When the pipe closes, because the launcher has ended, even by
SIGKILL, the guard ends the groups that are left: SIGTERM, some seconds of grace, SIGKILL. It runs
as a file of its own, without the package: `python -I guard.py GRACE_SECS`.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TextIO

_POLL_SECS = 0.1


def main(told: TextIO, grace_secs: float) -> None:
    """Keeps the list of the groups until the pipe closes, then ends those that are left."""
    groups: set[int] = set()
    for line in told:
        if line.endswith("\n"):
            change = groups.add if line[0] == "+" else groups.discard
            change(int(line[1:]))
    end_groups(groups, grace_secs)


def end_groups(groups: Iterable[int], grace_secs: float) -> None:
    """Ends process groups, by force if they are still there after some time.

    Args:
      groups: Their numbers, which are those of their first processes.
      grace_secs: Seconds between SIGTERM and SIGKILL.
    """
    left = [group for group in groups if _signalled(group, signal.SIGTERM)]
    deadline = time.monotonic() + grace_secs
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECS)
        left = [group for group in left if _signalled(group, 0)]
    for group in left:
        _signalled(group, signal.SIGKILL)


def _signalled(group: int, number: int) -> bool:
    """Sends a signal to a process group and returns whether there was anybody to take it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    main(sys.stdin, float(sys.argv[1]))
