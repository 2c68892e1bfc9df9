"""A cluster of real processes on this machine, for `benchmarks.scaling.cluster_points`.

One parameter server and some workers, which live as long as the cluster and train one case after
the other. Owns their start and end, what is said to them, and what the kernel knows of them: CPU
seconds, bytes over the loopback interface, and how busy other programs keep the machine. Linux
only.
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
"""How long a process may take to say what it is expected to say."""
_END_SECS = 5
_QUIET_CORES = 0.1
"""How much of a core other programs may take."""


class Snapshot(NamedTuple):
    """What the kernel has counted so far.

    Attributes:
      time: Of the monotonic clock, seconds.
      cpu: CPU seconds of each process, the server's first.
      busy: CPU seconds of all programs of the machine.
      sent: Bytes over the loopback interface.
    """

    time: float
    cpu: tuple[float, ...]
    busy: float
    sent: int

    def others_until(self, later: "Snapshot") -> float:
        """Returns how many cores other programs took from here to a later snapshot."""
        own = sum(later.cpu) - sum(self.cpu)
        return (later.busy - self.busy - own) / (later.time - self.time)


class Cluster:
    """The processes; a context manager that leaves none behind."""

    def __init__(self, workers: int) -> None:
        """Takes how many workers there shall be, ≥ 1."""
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
        """Measures a case.

        Args:
          case: Of no more workers than the cluster has.
          settle: Seconds that all workers run before the window.
          window: Seconds that are measured.
          tries: How many windows there may be until one is quiet; the quietest counts.
        """
        workers = self._processes[1 : 1 + case.workers]
        order = json.dumps({name: getattr(case, name) for name in case.__dataclass_fields__})
        for worker in workers:  # The chief, who is the first, makes the variables.
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
        """Begin and end of a window in which others do little, or of the one of the least."""
        found: list[tuple[Snapshot, Snapshot]] = []
        while len(found) < tries:
            before = self._snapshot()
            time.sleep(window)
            found.append((before, self._snapshot()))
            if before.others_until(found[-1][1]) <= _QUIET_CORES:
                return found[-1]
        return min(found, key=lambda pair: pair[0].others_until(pair[1]))

    def _snapshot(self) -> Snapshot:
        cpu = tuple(_cpu_seconds(process.pid) for process in self._processes)
        return Snapshot(time.monotonic(), cpu, _busy_seconds(), _loopback_bytes())


class _Process:
    """One of them, and what it says."""

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
        """Its number."""
        return self._child.pid

    def tell(self, line: str) -> None:
        """Writes a line to it."""
        assert self._child.stdin is not None  # noqa: S101  # it is a pipe
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def expect(self, key: str) -> dict[str, Any]:
        """Returns its next message with this key; ends the program if there is none in time."""
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
        """Ends it: its input ends, and if that is not enough it is killed."""
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


def _cpu_seconds(pid: int) -> float:
    """User and system seconds that a process has taken so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """CPU seconds that the machine has not been idle so far."""
    first, *_ = pathlib.Path("/proc/stat").read_text("ascii").splitlines()
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _loopback_bytes() -> int:
    """Bytes that went over the loopback interface so far, anybody's."""
    lines = pathlib.Path("/proc/net/dev").read_text("ascii").splitlines()
    (counts,) = (line.split(":")[1] for line in lines if line.strip().startswith("lo:"))
    return int(counts.split()[8])
