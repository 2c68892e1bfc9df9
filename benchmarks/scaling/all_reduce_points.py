"""Synchronous steps of several workers on one machine: all-reduce, parameter servers, and Keras.

Each mode trains the same chain of square layers with the same batch per worker, one thread per
process: by `replicate.AllReduce`, by a `SyncReplicasOptimizer` with one parameter server, and by
Keras' `fit` under `tf.distribute.MultiWorkerMirroredStrategy`. The modes take turns, so that other
load on the machine hits all of them alike. Prints a Markdown table of medians, and the ratio to
Keras.

    python -m benchmarks.scaling.all_reduce_points --workers=1,2,3,4 --json=points.json
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from benchmarks import harness
from benchmarks.scaling.chains import SHAPES, Shape
from replicate.launch.plan import cluster_plan

FLAGS = flags.FLAGS
MODES = ("all_reduce", "synchronous", "keras")
_ROOT = pathlib.Path(__file__).parents[2]
_LIMIT_SECS = 240
_WARM_STEPS = 10


def measure(mode: str, shape: Shape, workers: int, steps: int) -> float:
    """Returns the median seconds of a step of the chief.

    Raises:
      RuntimeError: A process failed, or took too long.
    """
    plan = cluster_plan(workers, 1 if mode == "synchronous" else 0)
    arguments = [mode, *map(str, shape), str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for task in plan.tasks:
            config = json.loads(plan.tf_config(task))
            if mode == "keras":
                config = _as_workers(config)
            command = [sys.executable, "-m", "benchmarks.scaling.all_reduce_task", *arguments]
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(config),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TF_USE_LEGACY_KERAS": "1",  # Keras 3 cannot train under this strategy.
                "PYTHONPATH": str(_ROOT),
            }
            if workers == 1 and mode != "synchronous":
                del environment["TF_CONFIG"]
            processes.append(
                subprocess.Popen(  # noqa: S603  # the program is one of ours
                    [*command, folder],
                    cwd=_ROOT,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            out, err = processes[0].communicate(timeout=_LIMIT_SECS)
            for process in processes[1:]:
                process.wait(_LIMIT_SECS)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{mode} with {workers} workers takes too long") from error
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    if processes[0].returncode:
        raise RuntimeError(f"{mode} with {workers} workers has failed: {err[-2000:]}")
    return statistics.median(json.loads(out.strip().splitlines()[-1])[_WARM_STEPS:])


def _as_workers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a TF_CONFIG as Keras reads it: workers only, the first of which is the chief."""
    workers = [*config["cluster"]["chief"], *config["cluster"].get("worker", [])]
    task = config["task"]
    index = 0 if task["type"] == "chief" else task["index"] + 1
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}


def table(found: Mapping[tuple[str, Shape, int], Sequence[float]]) -> list[str]:
    """Returns the lines of a Markdown table: milliseconds per step, medians over repetitions."""
    counts = sorted({workers for _, _, workers in found})
    lines = ["| mode | layers × width², batch | " + " | ".join(map(str, counts)) + " |"]
    lines.append("|---|---|" + "---|" * len(counts))
    for shape in dict.fromkeys(shape for _, shape, _ in found):
        medians = {
            (mode, workers): statistics.median(secs)
            for (mode, each, workers), secs in found.items()
            if each == shape
        }
        for mode in dict.fromkeys(mode for mode, _ in medians):
            cells = [_cell(mode, workers, medians) for workers in counts]
            lines.append(f"| {mode} | {shape} | " + " | ".join(cells) + " |")
    return lines


def _cell(mode: str, workers: int, medians: Mapping[tuple[str, int], float]) -> str:
    own, keras = medians.get((mode, workers)), medians.get(("keras", workers))
    if own is None:
        return ""
    ratio = f" ({own / keras:.2f})" if keras and mode == "all_reduce" else ""
    return f"{1e3 * own:.1f}{ratio}"


def main(_: Sequence[str]) -> None:
    """Measures all modes in turn and prints the table."""
    found: dict[tuple[str, Shape, int], list[float]] = {}
    shapes = [shape for index, shape in enumerate(SHAPES) if str(index) in FLAGS.shapes]
    for _ in range(FLAGS.repeats):
        for shape in shapes:
            for workers in map(int, FLAGS.workers):
                for mode in FLAGS.modes:
                    secs = measure(mode, shape, workers, FLAGS.steps)
                    found.setdefault((mode, shape, workers), []).append(secs)
                    line = f"{mode}, {workers} workers, {shape}: {1e3 * secs:.2f} ms"
                    print(line, file=sys.stderr, flush=True)
    print("\n".join(table(found)))
    if FLAGS.json:
        rows = [[mode, *shape, workers, secs] for (mode, shape, workers), secs in found.items()]
        points = {"time": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "points": rows}
        pathlib.Path(FLAGS.json).write_text(json.dumps(points))


if __name__ == "__main__":
    flags.DEFINE_list("workers", ["1", "2", "3", "4"], "Numbers of workers.")
    flags.DEFINE_list("modes", list(MODES), "Modes to measure.")
    flags.DEFINE_list("shapes", ["0", "1", "2"], "Indices of the shapes to measure.")
    flags.DEFINE_integer("steps", 100, "Measured steps.", 1)
    flags.DEFINE_integer("repeats", 1, "Repetitions, in which the modes take turns.", 1)
    flags.DEFINE_string("json", None, "File for the points.")
    harness.run(main)
