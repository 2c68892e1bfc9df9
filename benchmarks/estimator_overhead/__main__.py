"""Overhead of `Estimator.train` per step of a tiny model, compared with `tf.estimator`.

TensorFlow 2.15 is the last version with `tf.estimator`, so both run there, in separate processes.

    python -m benchmarks.estimator_overhead --python=PATH/TO/TF215/bin/python --repeats=3
"""

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness

LOOPS = ("bare", "no hook", "a hook")
RUNTIMES = ("replicate", "tf.estimator")

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of all blocks, by loop."""

FLAGS = flags.FLAGS


def time_here(runtime: str) -> Times:
    """Times the loops of one runtime in this process."""
    from benchmarks.estimator_overhead.estimator_loops import Loops  # noqa: PLC0415

    loops = Loops(runtime, FLAGS.steps)
    times = (loops.bare(), loops.without_hooks(), loops.with_a_hook())
    return dict(zip(LOOPS, times, strict=True))


def time_both() -> dict[str, Times]:
    """Times both runtimes in alternating processes and returns the times of all blocks."""
    found: dict[str, dict[str, list[float]]] = {
        runtime: {loop: [] for loop in LOOPS} for runtime in RUNTIMES
    }
    for runtime in RUNTIMES * FLAGS.repeats:
        options = f"--runtime={runtime}", f"--steps={FLAGS.steps}"
        command = harness.command("estimator_overhead", *options, python=FLAGS.python)
        child = harness.read_json(command, f"time {runtime}")
        for loop, times in child.items():
            found[runtime][loop].extend(times)
    return dict(found)


def table(found: Mapping[str, Times]) -> Iterator[str]:
    """Yields the lines of a table: the median of each loop's blocks and the lowest decile.

    The last line compares overheads: medians minus the median of all bare loops.
    """
    yield f"{'microseconds per step':<24}{'bare':>16}{'no hook':>16}{'a hook':>16}"
    for runtime, loops in found.items():
        cells = [f"{_decile(x, 5):.0f} ({_decile(x, 1):.0f})" for x in loops.values()]
        yield f"{runtime:<24}" + "".join(f"{cell:>16}" for cell in cells)
    bare = _decile([x for loops in found.values() for x in loops[LOOPS[0]]], 5)
    ours, theirs = (
        [_decile(found[name][loop], 5) - bare for loop in LOOPS[1:]] for name in RUNTIMES
    )
    shares = [f"{a / b:.2f}" for a, b in zip(ours, theirs, strict=True)]
    yield f"{'overhead, ours / theirs':<40}" + "".join(f"{share:>16}" for share in shares)


def _decile(times: Sequence[float], number: int) -> float:
    """Returns a decile in microseconds. The fifth is the median."""
    return 1e6 * statistics.quantiles(times, n=10)[number - 1]


def main(_: Sequence[str]) -> None:
    """Times the runtime of --runtime in this process; else times both and saves the results."""
    if FLAGS.runtime is not None:
        print(json.dumps(time_here(FLAGS.runtime)))
        return
    found = time_both()
    print("\n".join(table(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_string("python", sys.executable, "Python of TensorFlow 2.15.")
    flags.DEFINE_integer("repeats", 3, "Number of processes of each runtime.", lower_bound=1)
    flags.DEFINE_integer("steps", 4000, "Steps of each loop.", lower_bound=500)
    flags.DEFINE_enum(
        "runtime", None, RUNTIMES, "Time this runtime in this process and print JSON."
    )
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
