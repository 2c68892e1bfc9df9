"""Cluster of real processes on this machine, for `benchmarks.scaling.cluster_points`.

One parameter server and some workers run as long as the cluster and train one case after the other.
This module starts and ends them, exchanges messages with them, and reads from the kernel their CPU
seconds, the bytes over the loopback interface and the load of other programs. Linux only.
"""

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

from benchmarks import harness
from benchmarks.scaling.cluster_cases import Case, Point
from replicate.launch import cluster_plan

_PATIENCE_SECS = 120
"""Time limit for an expected message of a process."""
_END_SECS = 5
_QUIET_CORES = 0.1
"""Maximum cores used by other programs in a quiet window."""


class Snapshot(NamedTuple):
    """Counters of the kernel at one time.

    Attributes:
      time: Monotonic clock, seconds.
      cpu: CPU seconds of each process, starting with the server.
      busy: CPU seconds of all programs on the machine.
      sent: Bytes over the loopback interface.
    """

    time: float
    cpu: tuple[float, ...]
    busy: float
    sent: int

    def others_until(self, later: "Snapshot") -> float:
        """Returns the mean cores used by other programs between two snapshots."""
        own = sum(later.cpu) - sum(self.cpu)
        return (later.busy - self.busy - own) / (later.time - self.time)


class Cluster:
    """Context manager that starts the processes and ends all of them on exit."""

    def __init__(self, workers: int) -> None:
        """Takes the number of workers, ≥ 1."""
        self._workers = workers
        self._processes: list[_Process] = []

    def __enter__(self) -> "Cluster":
        plan = cluster_plan(self._workers, 1)
        *workers, server = [task.address for task in plan.tasks]
        cluster = json.dumps({"ps": [server], "worker": workers})
        names = [("ps", 0), *(("worker", index) for index in range(self._workers))]
        try:
            for job, index in names:
                self._processes.append(_Process(cluster, job, str(index)))
            for process in self._processes:
                process.expect("serves")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.end()

    def run(self, case: Case, settle: float, window: float, tries: int = 1) -> Point:
        """Measures a case with at most as many workers as the cluster.

        All workers run `settle` seconds before the first window. Of `tries` windows at most, until
        one is quiet, the quietest one counts.

        Raises:
          SystemExit: A process failed, or no worker made two steps in the window.
        """
        workers = self._processes[1 : 1 + case.workers]
        order = json.dumps({name: getattr(case, name) for name in case.__dataclass_fields__})
        for worker in workers:  # The first worker is the chief, which creates the variables.
            worker.tell(order)
            worker.expect("session")
        for worker in workers:
            worker.expect("running")
        time.sleep(settle)
        before, after = self._quietest(window, tries)
        for worker in workers:
            worker.tell(json.dumps([before.time, after.time]))
        found = [worker.expect("steps") for worker in workers]
        rate = sum(each["steps"] / each["seconds"] for each in found[: case.gradients])
        if not rate:
            raise SystemExit(
                f"{case.name}: no worker made two steps in {window} seconds. Measure for longer, "
                "or when the machine is less busy."
            )
        steps = rate * (after.time - before.time)
        server, *trained = (b - a for a, b in zip(before.cpu, after.cpu, strict=True))
        return Point(
            case=case,
            seconds=case.gradients / rate,
            worker=sum(trained[: case.workers]) / steps,
            server=server / steps,
            sent=(after.sent - before.sent) / steps,
            others=before.others_until(after),
        )

    def _quietest(self, window: float, tries: int) -> tuple[Snapshot, Snapshot]:
        """Returns start and end of the first quiet window, or of the quietest one."""
        found: list[tuple[Snapshot, Snapshot]] = []
        while len(found) < tries:
            before = self._snapshot()
            time.sleep(window)
            found.append((before, self._snapshot()))
            if before.others_until(found[-1][1]) <= _QUIET_CORES:
                return found[-1]
        return min(found, key=lambda pair: pair[0].others_until(pair[1]))

    def _snapshot(self) -> Snapshot:
        cpu = tuple(cpu_seconds(process.pid) for process in self._processes)
        return Snapshot(time.monotonic(), cpu, busy_seconds(), _loopback_bytes())


class _Process:
    """Process of the cluster and its messages."""

    def __init__(self, *arguments: str) -> None:
        outer = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self._child = subprocess.Popen(  # noqa: S603  # the program is one of ours
            [sys.executable, "-m", "benchmarks.scaling.cluster_worker", *arguments],
            cwd=harness.ROOT,
            env={"TF_CPP_MIN_LOG_LEVEL": "2", **outer},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._name = " ".join(arguments[1:])
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def tell(self, line: str) -> None:
        """Writes a line to the standard input of the process."""
        assert self._child.stdin is not None  # noqa: S101  # it is a pipe
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def expect(self, key: str) -> dict[str, Any]:
        """Returns the next message with `key`. Exits if none arrives in time."""
        deadline = time.monotonic() + _PATIENCE_SECS
        message: dict[str, Any] | None = {}
        while message is not None and key not in message:
            try:
                message = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                message = None
        if message is None:
            raise SystemExit(
                f"{self._name} has ended, or has not said {key!r} for {_PATIENCE_SECS} seconds: "
                "its error is above. On a machine that is very busy, measure later."
            )
        return message

    def end(self) -> None:
        """Closes the standard input of the process, and kills it if it does not end then."""
        with contextlib.suppress(OSError):
            assert self._child.stdin is not None  # noqa: S101  # it is a pipe
            self._child.stdin.close()
        try:
            self._child.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _listen(self) -> None:
        assert self._child.stdout is not None  # noqa: S101  # it is a pipe
        for line in self._child.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)


def cpu_seconds(pid: int) -> float:
    """Returns the user and system seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Returns the busy CPU seconds of the machine so far."""
    first, *_ = pathlib.Path("/proc/stat").read_text("ascii").splitlines()
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _loopback_bytes() -> int:
    """Returns the bytes sent over the loopback interface so far, by any program."""
    lines = pathlib.Path("/proc/net/dev").read_text("ascii").splitlines()
    (counts,) = (line.split(":")[1] for line in lines if line.strip().startswith("lo:"))
    return int(counts.split()[8])
