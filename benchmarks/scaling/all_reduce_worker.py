"""Process that `benchmarks.scaling.all_reduce_points` starts: trains its cases one after the other.

python -m benchmarks.scaling.all_reduce_worker CASES SETTLE_SECS WINDOW_SECS FOLDER

Prints a line of JSON for each case: the steps of the measured window, its begin and end by the
monotonic clock, and the CPU seconds of the process in it.
"""

import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import tensorflow as tf

import replicate
from benchmarks.scaling.cluster_cases import Case
from benchmarks.scaling.equal_workers import Shape
from benchmarks.scaling.equal_workers_task import batch_of, loss_of, run_config
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1

_LEAST_STEPS = 5


class Window(v1.train.SessionRunHook):
    """Measures steps while all workers train, and ends training when all have measured theirs."""

    def __init__(self, folder: pathlib.Path, name: str, workers: int, settle: float, window: float):
        self._folder, self._name, self._workers = folder, name, workers
        self._settle, self._window = settle, window
        self._steps = 0
        self._ready_at: float | None = None
        self._begin: tuple[int, float, float] | None = None
        self.found: dict[str, float] = {}

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a step, and measures or ends if it is time."""
        del run_values
        self._steps += 1
        now = time.monotonic()
        if self._steps == _LEAST_STEPS:
            self._tell("ready")
        if self._ready_at is None:
            self._ready_at = now if self._are_all("ready") else None
        elif self._begin is None:
            if now > self._ready_at + self._settle:
                self._begin = (self._steps, now, time.process_time())
        elif self.found:
            if self._are_all("done"):
                run_context.request_stop()
        elif now > self._begin[1] + self._window:
            steps, begin, cpu = self._begin
            self.found = {
                "steps": self._steps - steps,
                "begin": begin,
                "end": now,
                "cpu": time.process_time() - cpu,
            }
            self._tell("done")

    def _tell(self, what: str) -> None:
        (self._folder / f"{self._name}-{what}-{time.monotonic_ns()}").touch()

    def _are_all(self, what: str) -> bool:
        return len(list(self._folder.glob(f"{self._name}-{what}-*"))) == self._workers


def train(case: Case, window: Window) -> None:
    """Trains a case until its window is over."""
    shape = Shape(case.layers, case.width, case.batch)
    batch = batch_of(shape)
    settings: dict[str, Any] = {"cluster": ClusterConfig()}
    if case.mode == "all_reduce":
        settings = {"train_distribute": replicate.AllReduce(check_every=0)}

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        del labels
        with v1.variable_scope(case.name):  # A server keeps variables by name between trainings.
            loss = loss_of(features, shape)
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(1e-6))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tempfile.TemporaryDirectory() as folder:
        estimator = replicate.Estimator(model_fn, folder, run_config(**settings))
        estimator.train(
            lambda: tf.data.Dataset.from_tensors(batch).repeat(), hooks=[window], max_steps=10**9
        )


def main(cases: str, settle: str, secs: str, folder: str) -> None:
    """Trains the cases, which come as a list of their fields in JSON."""
    v1.logging.set_verbosity(v1.logging.ERROR)
    for number, case in enumerate(Case(**each) for each in json.loads(cases)):
        window = Window(pathlib.Path(folder), str(number), case.workers, float(settle), float(secs))
        train(case, window)
        print(json.dumps(window.found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
