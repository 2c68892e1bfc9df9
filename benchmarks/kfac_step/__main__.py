"""Time of a K-FAC step, compared with a momentum SGD step on the same model.

Both train in one process, in short alternating blocks, so that other load slows both. More lines
compare the floating-point operations that were executed. Residual networks are timed step by step:
their table has the slowest step, too. With --rival, tensorflow/kfac is compared with momentum SGD
in its own TensorFlow, on the other models.

    python -m benchmarks.kfac_step --model=convnet --batch_size=1024 --repeats=7
    python -m benchmarks.kfac_step --model=resnet20 --curvature_share=0.125 --repeats=10
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, rivals
from benchmarks.kfac_step import AVERAGE_EVERY, INVERT_EVERY, MODELS, NETWORKS, OPTIMIZERS
from examples.lazy_module import LazyModule

step_programs = LazyModule("benchmarks.kfac_step.step_programs")

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, by optimizer. Those of K-FAC include inverses."""

FLAGS = flags.FLAGS


class Stepwise:
    """Program that is timed step by step.

    Attributes:
      seconds: Those of all steps.
    """

    def __init__(self, program: harness.Program) -> None:
        self.seconds: list[float] = []
        self._program = program

    def run(self, steps: int) -> float:
        """Runs some steps and returns the mean seconds per step."""
        new = [self._program.run(1) for _ in range(steps)]
        self.seconds += new
        return statistics.mean(new)


def make_programs(model: str) -> dict[str, step_programs.Program]:
    """Returns the training programs of a model, by optimizer."""
    given = FLAGS.batch_size, FLAGS.momentum_type, FLAGS.curvature_share
    return {name: step_programs.Program(model, name, *given) for name in OPTIMIZERS}


def measure(programs: Mapping[str, harness.Program], warm_up: int = 2 * INVERT_EVERY) -> Times:
    """Times both optimizers in alternating blocks."""
    return harness.take_turns(programs, FLAGS.repeats, FLAGS.block, warm_up)


def measure_steps(programs: Mapping[str, harness.Program]) -> tuple[Times, str]:
    """Times residual networks like `measure`; returns also what `slowest` says of K-FAC."""
    stepwise = {name: Stepwise(program) for name, program in programs.items()}
    times = measure(stepwise, AVERAGE_EVERY)
    return times, slowest(stepwise["K-FAC"].seconds[AVERAGE_EVERY:])


def slowest(seconds: Sequence[float]) -> str:
    """Compares the slowest step, with and without averages, with the median step."""
    others = [value for index, value in enumerate(seconds) if index % AVERAGE_EVERY]
    both = max(seconds[::AVERAGE_EVERY]), max(others, default=math.nan)
    ratios = (value / statistics.median(seconds) for value in both)
    return "{:.2f} with averages, {:.2f} without".format(*ratios)


def time_lines(found: Mapping[str, Times], slow: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of a table: "median [smallest, largest]" of times and ratios."""
    rows = []
    for name, times in found.items():
        series = [[1e3 * second for second in times[optimizer]] for optimizer in OPTIMIZERS]
        ratio = harness.spread(harness.ratios(*reversed(series)), 2)
        cells = (harness.spread(each, 1) for each in series)
        rows.append([name, *cells, ratio, slow.get(name, "")])
    heads = ("model", "momentum, ms", "K-FAC, ms", "ratio", "slowest / median step")
    return harness.table(heads, rows)


def operation_line(model: str, operations: Mapping[str, float]) -> str:
    """Returns a line with the operations of a step of both in units of 10⁹, and their ratio."""
    momentum, kfac = (operations[name] for name in OPTIMIZERS)
    numbers = f"{momentum / 1e9:.2f}, {kfac / 1e9:.2f}: {kfac / momentum:.2f}"
    return f"{model}, 10⁹ operations: {numbers}"


def main(_: Sequence[str]) -> None:
    """Prints the times of one model as JSON with --here; else measures and saves all."""
    if FLAGS.here:
        print(json.dumps(measure(make_programs(FLAGS.model[0]))))
        return
    times, operations, slow = {}, {}, {}
    for model in FLAGS.model:
        programs = make_programs(model)
        if model in NETWORKS:
            times[model], slow[model] = measure_steps(programs)
        else:
            times[model] = measure(programs)
            operations[model] = {
                name: each.executed_operations() for name, each in programs.items()
            }
    for rival in FLAGS.rival:
        for model in (model for model in FLAGS.model if model in MODELS):
            options = harness.given_flags("batch_size", "repeats", "block")
            command = rivals.command_of(rival, "kfac_step", "--here", f"--model={model}", *options)
            name = f"{model}, {rival}"
            times[name] = harness.read_json(command, f"time {name}", FLAGS.seconds)
    rows = map(operation_line, operations, operations.values())
    print("\n".join([*time_lines(times, slow), *rows]))
    harness.save({"seconds": times, "operations": operations, "slowest": slow})


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    every = [*MODELS, *NETWORKS]
    flags.DEFINE_multi_enum("model", list(MODELS), every, "Model to train; may be repeated.")
    flags.DEFINE_integer("batch_size", 0, "Examples in a batch. 0: the usual number.", 0)
    flags.DEFINE_integer("repeats", 7, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    flags.DEFINE_enum("momentum_type", "regular", ["regular", "adam"], "Momentum type of K-FAC.")
    flags.DEFINE_float("curvature_share", 1.0, "Share of ResNets' examples in averages.", 1e-3, 1.0)
    flags.DEFINE_float("seconds", 200, "Time limit of the rival for a model.")
    harness.define_flags(here=True)
    rivals.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
