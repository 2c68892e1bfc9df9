"""Time and cost of a step of workers without parameter servers, and of the same workers alone.

For each number of workers, that many processes on 127.0.0.1 train the chains of layers of
`benchmarks.scaling.cluster_cases` by `replicate.AllReduce`, and each by itself beside the others.
Each case is measured for some seconds after it has settled: time per step, CPU seconds, and the
load of other programs. `benchmarks.scaling` reads the result. Run it on an otherwise idle machine,
and several times: the medians count.

    python -m benchmarks.scaling.all_reduce_points --workers=4 --repeats=3 --json=reduce.json
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags

from benchmarks import harness
from benchmarks.scaling.cluster_cases import Case, Point, reduce_cases
from benchmarks.scaling.cluster_points import line
from benchmarks.scaling.cluster_processes import busy_seconds
from replicate.launch import cluster_plan

FLAGS = flags.FLAGS

_LIMIT_SECS = 300
_LOOK_SECS = 0.05


def measure(cases: Sequence[Case], settle: float, window: float) -> list[Point]:
    """Returns the measurements of cases of one number of workers, over `window` seconds each.

    Raises:
      SystemExit: A process failed, or took too long.
    """
    given = json.dumps([dataclasses.asdict(case) for case in cases])
    with tempfile.TemporaryDirectory() as folder, _Load() as load:
        told = _told(cases[0].workers, [given, str(settle), str(window), folder])
    return [_point(case, [each[i] for each in told], load) for i, case in enumerate(cases)]


class _Load:
    """Reads the busy seconds of the machine again and again, as a context manager."""

    def __init__(self) -> None:
        self._read: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def busy_cores(self, begin: float, end: float) -> float:
        """Returns the cores in use between two times of the monotonic clock."""
        inside = [pair for pair in self._read if begin <= pair[0] <= end]
        (first_at, first), (last_at, last) = inside[0], inside[-1]
        return (last - first) / (last_at - first_at)

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECS):
            self._read.append((time.monotonic(), busy_seconds()))


def _told(workers: int, arguments: Sequence[str]) -> list[list[dict[str, float]]]:
    """Runs the processes; returns the lines of each."""
    plan = cluster_plan(workers, 0)
    processes = [
        subprocess.Popen(  # noqa: S603  # the program is one of ours
            [sys.executable, "-m", "benchmarks.scaling.all_reduce_worker", *arguments],
            cwd=harness.ROOT,
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "3",
                **({"TF_CONFIG": plan.tf_config(task)} if workers > 1 else {}),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for task in plan.tasks
    ]
    try:
        deadline = time.monotonic() + _LIMIT_SECS
        outs = [each.communicate(timeout=deadline - time.monotonic())[0] for each in processes]
    except subprocess.TimeoutExpired:
        raise SystemExit(
            f"{workers} workers take longer than {_LIMIT_SECS} seconds. Look for an error above, "
            "or measure when the machine is less busy."
        ) from None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    if any(process.returncode for process in processes):
        raise SystemExit(f"One of {workers} workers has failed: its error is above.")
    return [[json.loads(each) for each in out.splitlines()] for out in outs]


def _point(case: Case, found: Sequence[dict[str, float]], load: _Load) -> Point:
    """Returns the point of a case from what all its workers have measured."""
    begin, end = max(each["begin"] for each in found), min(each["end"] for each in found)
    rates = [each["steps"] / (each["end"] - each["begin"]) for each in found]
    own = sum(each["cpu"] / (each["end"] - each["begin"]) for each in found)
    return Point(
        case=case,
        seconds=len(rates) / sum(rates),
        worker=sum(each["cpu"] for each in found) / sum(each["steps"] for each in found),
        server=0.0,
        sent=0.0,
        others=max(0.0, load.busy_cores(begin, end) - own),
    )


def points() -> Iterator[Point]:
    """Yields the measurements of all numbers of workers, as often as the flags say."""
    for _ in range(FLAGS.repeats):
        for workers in range(1, FLAGS.workers + 1):
            yield from measure(list(reduce_cases(workers)), FLAGS.settle_secs, FLAGS.window_secs)


def main(_: Sequence[str]) -> None:
    """Runs the measurements, then prints and saves them."""
    started = time.monotonic()
    found: list[Any] = []
    for point in points():
        print(line(point), flush=True)
        found.append(point)
    print(f"{time.monotonic() - started:.0f} seconds")
    if FLAGS.json:
        harness.write_record(str(pathlib.Path(FLAGS.json)), [point.as_json() for point in found])


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_integer("workers", 4, "Greatest number of workers.", lower_bound=1)
    flags.DEFINE_integer("repeats", 3, "Repetitions.", lower_bound=1)
    flags.DEFINE_float("settle_secs", 0.5, "Seconds before the measured window.", lower_bound=0)
    flags.DEFINE_float("window_secs", 2.0, "Seconds of the measured window.", lower_bound=0.2)
    flags.DEFINE_string("json", None, "File to write the measurements to.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
