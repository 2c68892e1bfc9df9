"""Time of a K-FAC step, compared with a momentum SGD step on the same model.

Both train in one process, in short alternating blocks, so that other load slows both. More lines
compare the floating-point operations that were executed. With --rival, tensorflow/kfac is compared
with momentum SGD in its own TensorFlow.

    python -m benchmarks.kfac_step --model=convnet --batch_size=1024 --repeats=7
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from absl import flags

from benchmarks import harness, rivals
from benchmarks.kfac_step import MODELS

if TYPE_CHECKING:
    from benchmarks.kfac_step.step_programs import Program

OPTIMIZERS = ("momentum", "kfac")

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, by optimizer. Those of K-FAC include inverses."""

FLAGS = flags.FLAGS


def make_programs(model: str) -> "dict[str, Program]":
    """Returns the training programs of a model, by optimizer."""
    from benchmarks.kfac_step import step_programs  # noqa: PLC0415

    return {
        name: step_programs.Program(model, name, FLAGS.batch_size, FLAGS.momentum_type)
        for name in OPTIMIZERS
    }


def measure(programs: "Mapping[str, Program]") -> Times:
    """Times both optimizers in alternating blocks."""
    from benchmarks.kfac_step.step_programs import INVERT_EVERY  # noqa: PLC0415

    return harness.take_turns(programs, FLAGS.repeats, FLAGS.block, 2 * INVERT_EVERY)


def time_lines(found: Mapping[str, Times]) -> Iterator[str]:
    """Yields the lines of a table: "median [smallest, largest]" of times and ratios."""
    rows = []
    for name, times in found.items():
        series = [[1e3 * second for second in times[optimizer]] for optimizer in OPTIMIZERS]
        ratio = harness.spread(harness.ratios(*reversed(series)), 2)
        rows.append([name, *(harness.spread(each, 1) for each in series), ratio])
    return harness.table(("model", "momentum ms", "K-FAC ms", "ratio"), rows)


def operation_line(model: str, operations: Mapping[str, float]) -> str:
    """Returns a line with the operations of a step of both in units of 10⁹, and their ratio."""
    momentum, kfac = (operations[name] for name in OPTIMIZERS)
    numbers = f"{momentum / 1e9:.2f}, {kfac / 1e9:.2f}: {kfac / momentum:.2f}"
    return f"{model}, 10⁹ operations: {numbers}"


def profile(model: str) -> Iterator[str]:
    """Yields the time by op type of a momentum step, a K-FAC step, and one with inverses."""
    from benchmarks.kfac_step.step_programs import INVERT_EVERY  # noqa: PLC0415

    momentum, kfac = make_programs(model).values()
    for program in (momentum, kfac):
        program.run(2 * INVERT_EVERY)
    inverts, plain, usual = kfac.profile(), momentum.profile(), kfac.profile()
    longest = sorted(inverts, key=lambda kind: -inverts[kind])[:20]
    rows = [
        [kind, *(f"{found.get(kind, 0.0):.1f}" for found in (plain, usual, inverts))]
        for kind in longest
    ]
    heads = (f"{model}: ms, summed over threads", "momentum", "K-FAC", "with inverses")
    return harness.table(heads, rows)


def main(_: Sequence[str]) -> None:
    """Prints the times of one model as JSON with --here; else measures and saves all."""
    if FLAGS.here:
        print(json.dumps(measure(make_programs(FLAGS.model[0]))))
        return
    times, operations = {}, {}
    for model in FLAGS.model:
        programs = make_programs(model)
        times[model] = measure(programs)
        operations[model] = {name: each.executed_operations() for name, each in programs.items()}
    for rival in FLAGS.rival:
        for model in FLAGS.model:
            options = harness.given_flags("batch_size", "repeats", "block")
            command = rivals.command_of(rival, "kfac_step", "--here", f"--model={model}", *options)
            name = f"{model}, {rival}"
            times[name] = harness.read_json(command, f"time {name}", FLAGS.seconds)
    print("\n".join([*time_lines(times), *map(operation_line, operations, operations.values())]))
    for model in FLAGS.model if FLAGS.profile else ():
        print("\n".join(profile(model)))
    harness.save({"seconds": times, "operations": operations})


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "Model to train; may be repeated.")
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("repeats", 7, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    flags.DEFINE_enum("momentum_type", "regular", ["regular", "adam"], "Momentum type of K-FAC.")
    flags.DEFINE_bool("profile", False, "Also show the time of a step by op type.")
    flags.DEFINE_float("seconds", 200, "Time limit of the rival for a model.")
    harness.define_flags(here=True)
    rivals.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
