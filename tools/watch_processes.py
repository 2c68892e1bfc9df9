"""Runs a command, then prints its seconds and the largest of its processes.

    python tools/watch_processes.py make test

Memory is the resident set, which counts pages that forks share once for each of them.
"""

import subprocess
import sys
import time
from typing import NamedTuple

import psutil

SECS = 0.5


class Seen(NamedTuple):
    """Largest memory and number of threads of a process, or of all at a time."""

    megabytes: int
    threads: int
    command: str

    def largest(self, other: "Seen") -> "Seen":
        """Returns the larger of each."""
        return Seen(
            max(self.megabytes, other.megabytes), max(self.threads, other.threads), self.command
        )


def look(process: psutil.Process) -> Seen | None:
    """Returns what a process has now, None if it has ended."""
    try:
        with process.oneshot():
            memory, command = process.memory_info().rss >> 20, " ".join(process.cmdline())
            return Seen(memory, process.num_threads(), command[:70])
    except psutil.Error:
        return None


def main() -> None:
    """Watches the command until it ends, and exits with its code."""
    start = time.monotonic()
    command = subprocess.Popen(sys.argv[1:])  # noqa: S603 - the user's own command
    root = psutil.Process(command.pid)
    largest: dict[int, Seen] = {}
    total = Seen(0, 0, "all processes together")
    while command.poll() is None:
        found = {
            process.pid: seen
            for process in (root, *root.children(recursive=True))
            if (seen := look(process))
        }
        for pid, seen in found.items():
            largest[pid] = largest.get(pid, seen).largest(seen)
        now = Seen(
            sum(seen.megabytes for seen in found.values()),
            sum(seen.threads for seen in found.values()),
            total.command,
        )
        total = total.largest(now)
        time.sleep(SECS)
    print(f"{time.monotonic() - start:.0f} s, exit code {command.returncode}")
    by_memory = sorted(largest.values(), reverse=True)[:3]
    by_threads = sorted(largest.values(), key=lambda seen: -seen.threads)[:3]
    for seen in (total, *dict.fromkeys([*by_memory, *by_threads])):
        print(f"{seen.megabytes:6} MB {seen.threads:5} threads  {seen.command}")
    sys.exit(command.returncode)


if __name__ == "__main__":
    main()
