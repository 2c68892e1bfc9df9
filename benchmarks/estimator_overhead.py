"""Overhead of `Estimator.train` per step of a tiny model, compared with `tf.estimator`.

TensorFlow 2.15 is the last version with `tf.estimator`, so both run there, in separate processes.

    python -m benchmarks.estimator_overhead --python=PATH/TO/TF215/bin/python --repeats=3
"""

from __future__ import annotations

import importlib
import itertools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from absl import flags

from benchmarks import harness
from examples.lazy_module import LazyModule

tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")


LOOPS = ("bare", "no hook", "a hook")
RUNTIMES = ("replicate", "tf.estimator")
BLOCK = 100
"""Steps in a timed block. Both runtimes log once in as many steps by default."""

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of all blocks except the first, which is the warm-up, by loop."""

FLAGS = flags.FLAGS


def time_here(runtime: str, steps: int) -> Times:
    """Times the loops of one runtime in this process."""
    api: Any = importlib.import_module("replicate") if runtime == RUNTIMES[0] else v1.estimator
    moments: list[float] = []
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        spec = _model_fn(api)(*v1.data.make_one_shot_iterator(_input_fn()).get_next(), "train")
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            session.run(spec.train_op)
            moments.append(time.perf_counter())
    bare = _block_means(moments)
    with tempfile.TemporaryDirectory() as folder:
        api.Estimator(_model_fn(api), folder).train(_input_fn, steps=steps)
        without_hooks = _logged_means(folder)
    hook, moments = v1.train.SessionRunHook(), []
    hook.after_run = lambda *_: moments.append(time.perf_counter())
    with tempfile.TemporaryDirectory() as folder:
        api.Estimator(_model_fn(api), folder).train(_input_fn, hooks=[hook], steps=steps)
    return dict(zip(LOOPS, (bare, without_hooks, _block_means(moments)), strict=True))


def _input_fn() -> Any:
    return tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat()


def _model_fn(api: Any) -> Callable[..., Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(features @ v1.get_variable("w", [4, 1]) - labels))
        optimizer = v1.train.GradientDescentOptimizer(0.01)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return api.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def _logged_means(folder: str) -> list[float]:
    """Returns the seconds per step of all blocks but the first, from the event files."""
    speeds = [
        value.simple_value
        for path in pathlib.Path(folder).glob("events*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "global_step/sec"
    ]
    return [1 / speed for speed in speeds[1:]]


def _block_means(moments: Sequence[float]) -> list[float]:
    """Returns the seconds per step of each block but the first, from the end of each step."""
    ends = moments[BLOCK::BLOCK]
    return [(end - start) / BLOCK for start, end in itertools.pairwise(ends)]


def time_both() -> dict[str, dict[str, list[float]]]:
    """Times both runtimes in alternating processes and returns the times of all blocks."""
    found: dict[str, dict[str, list[float]]] = {
        runtime: {loop: [] for loop in LOOPS} for runtime in RUNTIMES
    }
    for runtime in RUNTIMES * FLAGS.repeats:
        options = f"--runtime={runtime}", f"--steps={FLAGS.steps}"
        command = harness.command("estimator_overhead", *options, python=FLAGS.python)
        for loop, times in harness.read_json(command, f"time {runtime}").items():
            found[runtime][loop].extend(times)
    return found


def table(found: Mapping[str, Times]) -> Iterator[str]:
    """Yields the lines of a table: the median of each loop's blocks and the lowest decile.

    The last line compares overheads: medians minus the median of all bare loops.
    """
    rows = [
        [name, *(f"{_decile(times, 5):.0f} ({_decile(times, 1):.0f})" for times in loops.values())]
        for name, loops in found.items()
    ]
    bare = _decile([time for loops in found.values() for time in loops[LOOPS[0]]], 5)
    over = [[_decile(found[name][loop], 5) - bare for loop in LOOPS[1:]] for name in RUNTIMES]
    ratios = [f"{ratio:.2f}" for ratio in harness.ratios(*over)]
    rows.append(["overhead, ours / theirs", "", *ratios])
    return harness.table(("microseconds per step", *LOOPS), rows)


def _decile(times: Sequence[float], number: int) -> float:
    """Returns a decile in microseconds. The fifth is the median."""
    return 1e6 * statistics.quantiles(times, n=10)[number - 1]


def main(_: Sequence[str]) -> None:
    """Times the runtime of --runtime in this process; else times both and saves the results."""
    if FLAGS.runtime is not None:
        print(json.dumps(time_here(FLAGS.runtime, FLAGS.steps)))
        return
    found = time_both()
    print("\n".join(table(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_string("python", sys.executable, "Python of TensorFlow 2.15.")
    flags.DEFINE_integer("repeats", 3, "Number of processes of each runtime.", lower_bound=1)
    flags.DEFINE_integer("steps", 4000, "Steps of each loop.", lower_bound=500)
    flags.DEFINE_enum("runtime", None, RUNTIMES, "Time this runtime here and print JSON.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
