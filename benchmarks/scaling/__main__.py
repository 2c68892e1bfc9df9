"""Steps of several workers on one machine, in several modes of training on a cluster.

Each mode trains the same chain of square layers with the same batch per worker, one thread per
process, by a program of `benchmarks.scaling.task`. Each measurement has processes of its own, and
the modes take turns. The time of a step is the time between two gradients of the chief while all
workers train, in blocks of `INTERVAL` steps. Run it on an otherwise idle machine.

    python -m benchmarks.scaling --modes=all_reduce,synchronous,keras --workers=1,2

Over a slow link, in a network of its own, which the processes share:

    unshare -rn sh -c 'ip link set lo up; tc qdisc add dev lo root tbf rate 100mbit burst 256kb \
        latency 1s; python -m benchmarks.scaling --modes=all_reduce,rounds --workers=2 --shapes=1'
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TypeAlias

from absl import flags

from benchmarks import harness
from benchmarks.scaling.chains import INTERVAL, KFAC_MODES, ROUNDS, SHAPES, Shape
from replicate.launch.plan import ClusterPlan, cluster_plan

CLUSTER_MODES = ("asynchronous", "synchronous", "averaging", *KFAC_MODES)
"""Modes with a parameter server."""
MODES = (*CLUSTER_MODES, "all_reduce", *ROUNDS, "keras")
_ONLY_SHAPE = {
    "averaging": SHAPES[1],
    **dict.fromkeys((*KFAC_MODES, "rounds_beside", "rounds_in_fragments"), SHAPES[0]),
}
_LEAST_WORKERS = {"dedicated_workers": 3}
_LIMIT_SECS = 300

Found: TypeAlias = Mapping[tuple[str, Shape, int], Sequence[float]]
"""Seconds of a step, of each repetition, by mode, shape and number of workers."""

FLAGS = flags.FLAGS


def cases(modes: Sequence[str]) -> list[tuple[str, Shape, int]]:
    """Returns mode, shape and number of workers of each chosen case, those to compare in turn."""
    return [
        (mode, shape, workers)
        for shape in (SHAPES[int(index)] for index in FLAGS.shapes)
        for workers in map(int, FLAGS.workers)
        for mode in modes
        if _ONLY_SHAPE.get(mode, shape) == shape and workers >= _LEAST_WORKERS.get(mode, 1)
    ]


def measure(mode: str, shape: Shape, workers: int, steps: int) -> float:
    """Returns the seconds of a step, the median of the blocks.

    Raises:
      harness.ChildError: A process failed, or took too long.
    """
    plan = cluster_plan(workers, 1 if mode in CLUSTER_MODES else 0)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        arguments = [mode, *map(str, shape), str(workers), str(steps), folder]
        processes = _start(plan, mode, arguments, errors)
        limit = threading.Timer(_LIMIT_SECS, _end, [processes])
        limit.start()
        try:
            chief = processes[0].stdout
            line = "" if chief is None else chief.readline()
        finally:
            limit.cancel()
            _end(processes)
        if not line:
            errors.seek(0)
            raise harness.ChildError(
                f"Could not measure {mode} with {workers} workers in {_LIMIT_SECS} s; the "
                f"processes said:\n{errors.read()[-2000:]}"
            )
    return statistics.median(json.loads(line))


def _start(
    plan: ClusterPlan, mode: str, arguments: Sequence[str], errors: IO[str]
) -> list[subprocess.Popen[str]]:
    """Starts the processes of a cluster, the chief first."""
    processes = []
    for task in plan.tasks:
        config = json.loads(plan.tf_config(task))
        if mode == "keras":  # Its first worker is the chief.
            cluster, own = config["cluster"], config["task"]
            index = 0 if own["type"] == "chief" else own["index"] + 1
            every = [*cluster["chief"], *cluster.get("worker", [])]
            config = {"cluster": {"worker": every}, "task": {"type": "worker", "index": index}}
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_USE_LEGACY_KERAS": "1",  # Keras 3 cannot train under this strategy.
        }
        if len(plan.tasks) == 1:
            del environment["TF_CONFIG"]
        processes.append(
            subprocess.Popen(  # noqa: S603  # the program is one of ours
                [sys.executable, "-m", "benchmarks.scaling.task", *arguments],
                cwd=harness.ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        )
    return processes


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def table(found: Found) -> Iterator[str]:
    """Yields the lines of a Markdown table: milliseconds per step, medians over repetitions.

    Those of all-reduce have their ratio to Keras in brackets.
    """
    counts = sorted({workers for _, _, workers in found})
    medians = {case: statistics.median(seconds) for case, seconds in found.items()}
    rows = []
    for mode, shape in dict.fromkeys((mode, shape) for mode, shape, _ in found):
        cells = []
        for workers in counts:
            own, keras = medians.get((mode, shape, workers)), medians.get(("keras", shape, workers))
            ratio = f" ({own / keras:.2f})" if own and keras and mode == "all_reduce" else ""
            cells.append(f"{1e3 * own:.1f}{ratio}" if own else "")
        rows.append([mode, shape, *cells])
    return harness.table(("mode", "layers × width², batch", *counts), rows)


def main(_: Sequence[str]) -> None:
    """Measures the chosen cases in turn, then prints and saves the results."""
    found: dict[tuple[str, Shape, int], list[float]] = {}
    for _repeat in range(FLAGS.repeats):
        for case in cases(FLAGS.modes):
            found.setdefault(case, []).append(measure(*case, FLAGS.steps))
            mode, shape, workers = case
            line = f"{mode}, {workers} workers, {shape}: {1e3 * found[case][-1]:.2f} ms"
            print(line, file=sys.stderr, flush=True)
    print("\n".join(table(found)))
    harness.save([[mode, *shape, n, secs] for (mode, shape, n), secs in found.items()])


if __name__ == "__main__":
    flags.DEFINE_list("workers", ["1", "2", "3", "4"], "Numbers of workers.")
    flags.DEFINE_list("modes", list(MODES), "Modes to measure.")
    flags.DEFINE_list("shapes", ["0", "1", "2"], "Indices of the shapes to measure.")
    flags.DEFINE_integer("steps", 100, "Measured steps.", INTERVAL)
    flags.DEFINE_integer("repeats", 1, "Repetitions, in which the modes take turns.", 1)
    harness.define_flags()
    harness.run(main)
