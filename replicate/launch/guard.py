"""The guard: a process that ends the launcher's children if the launcher is killed.

Its standard input is a pipe from the launcher. A line "+PID" names a process group that has
started, "-PID" one that has ended. The pipe closes when the launcher ends, even by SIGKILL. Then
the guard sends SIGTERM to the groups that are left and, after some seconds of grace, SIGKILL. It
runs as a file of its own, without the package: `python -I guard.py GRACE_SECS`.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import TextIO

_POLL_SECS = 0.1


def main(lines: TextIO, grace_secs: float) -> None:
    """Tracks process groups until the pipe closes, then ends those that are left."""
    groups: set[int] = set()
    for line in lines:
        if line.endswith("\n"):
            change = groups.add if line[0] == "+" else groups.discard
            change(int(line[1:]))
    end_groups(groups, grace_secs)


def end_groups(groups: Iterable[int], grace_secs: float) -> None:
    """Sends SIGTERM to process groups, and SIGKILL to those that do not end in time."""
    left = [group for group in groups if _send_signal(group, signal.SIGTERM)]
    deadline = time.monotonic() + grace_secs
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECS)
        left = [group for group in left if _send_signal(group, 0)]
    for group in left:
        _send_signal(group, signal.SIGKILL)


def _send_signal(group: int, number: int) -> bool:
    """Sends a signal to a process group and returns True if the group still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    main(sys.stdin, float(sys.argv[1]))
