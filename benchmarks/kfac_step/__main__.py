"""Time of a K-FAC step, compared with a momentum SGD step on the same model.

Both optimizers train in one process, in short alternating blocks, so that other load on the machine
slows both. The table also shows the floating-point operations of the textbook algorithm and those
that were executed. `--profile` adds the time by op type.

    python -m benchmarks.kfac_step --model=convnet --batch_size=1024 --repeats=7
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness
from benchmarks.kfac_step import MODELS, operation_counts

FLAGS = flags.FLAGS


class Operations(NamedTuple):
    """Floating-point operations per step."""

    momentum: float
    kfac: float

    @property
    def ratio(self) -> float:
        """K-FAC divided by momentum SGD."""
        return self.kfac / self.momentum

    def __str__(self) -> str:
        """Formats both in units of 10⁹, and their ratio."""
        return f"{self.momentum / 1e9:.2f}, {self.kfac / 1e9:.2f}: {self.ratio:.2f}"


class Measurement(NamedTuple):
    """Seconds and operations per step.

    Seconds are by pair of blocks. Those of K-FAC include inverses. Operations are those of the
    textbook algorithm, and the executed ones.
    """

    model: str
    momentum: list[float]
    kfac: list[float]
    textbook: Operations
    executed: Operations

    @property
    def ratios(self) -> list[float]:
        """K-FAC divided by momentum SGD, by pair of blocks."""
        return harness.ratios(self.kfac, self.momentum)


def measure(model: str) -> Measurement:
    """Times both optimizers in alternating blocks and counts their operations."""
    from benchmarks.kfac_step import step_programs  # noqa: PLC0415

    batch_size = FLAGS.batch_size
    pair = {
        name: step_programs.Program(model, name, batch_size, FLAGS.momentum_type)
        for name in ("momentum", "kfac")
    }
    warm_up = 2 * step_programs.INVERT_EVERY
    times = harness.take_turns(pair, FLAGS.repeats, FLAGS.block, warm_up)
    counts = _textbook_operations(model)
    return Measurement(
        model,
        **times,
        textbook=Operations(operation_counts.momentum_operations(counts), sum(counts.values())),
        executed=Operations(*(program.executed_operations() for program in pair.values())),
    )


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yields the lines of a table: "median [smallest, largest]" of times and ratios.

    Operations are those of momentum SGD and K-FAC in units of 10⁹, and their ratio.
    """
    yield (
        f"{'model':<13}{'momentum ms':>22}{'K-FAC ms':>24}{'ratio':>19}"
        f"{'textbook operations':>24}{'executed':>24}"
    )
    for found in measurements:
        times = [[1e3 * t for t in values] for values in (found.momentum, found.kfac)]
        yield (
            f"{found.model:<13}{harness.spread(times[0], 1):>22}{harness.spread(times[1], 1):>24}"
            f"{harness.spread(found.ratios, 2):>19}{found.textbook!s:>24}{found.executed!s:>24}"
        )


def profile(model: str) -> Iterator[str]:
    """Yields the time by op type of a momentum step, a K-FAC step, and one with inverses."""
    from benchmarks.kfac_step import step_programs  # noqa: PLC0415

    batch_size = FLAGS.batch_size
    momentum, kfac = (
        step_programs.Program(model, name, batch_size, FLAGS.momentum_type)
        for name in ("momentum", "kfac")
    )
    for program in (momentum, kfac):
        program.run(2 * step_programs.INVERT_EVERY)
    with_inverses, plain, without = kfac.profile(), momentum.profile(), kfac.profile()
    yield f"{model}: ms by op type, summed over threads"
    yield f"{'momentum':>12}{'K-FAC':>12}{'inverses':>12}"
    for kind in sorted(with_inverses, key=lambda kind: -with_inverses[kind])[:20]:
        columns = (plain.get(kind, 0.0), without.get(kind, 0.0), with_inverses[kind])
        yield "".join(f"{value:>12.1f}" for value in columns) + f"  {kind}"
    yield f"{model}: 10⁹ floating-point operations by the textbook"
    for purpose, count in _textbook_operations(model).items():
        yield f"{count / 1e9:>12.2f}  {purpose}"


def _textbook_operations(model: str) -> dict[str, float]:
    from benchmarks.kfac_step import step_programs  # noqa: PLC0415

    sizes = step_programs.layer_sizes(model)
    interval = step_programs.INVERT_EVERY
    return operation_counts.textbook_operations(sizes, FLAGS.batch_size, interval)


def main(argv: Sequence[str]) -> None:
    """Runs the benchmark, then prints, saves and draws the results."""
    del argv
    measurements = [measure(model) for model in FLAGS.model]
    for line in table(measurements):
        print(line)
    if FLAGS.profile:
        for model in FLAGS.model:
            print("\n".join(profile(model)))
    if FLAGS.json:
        harness.write_record(FLAGS.json, [found._asdict() for found in measurements])
    if FLAGS.picture:
        groups = {
            found.model: {
                "seconds": found.ratios,
                "operations, executed": [found.executed.ratio],
                "operations, textbook": [found.textbook.ratio],
            }
            for found in measurements
        }
        title = f"Step of K-FAC / momentum SGD, batch {FLAGS.batch_size}"
        harness.draw_bars(FLAGS.picture, groups, title, "ratio")


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "Model to train; may be repeated.")
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("repeats", 7, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    flags.DEFINE_enum("momentum_type", "regular", ["regular", "adam"], "Momentum type of K-FAC.")
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the ratios to.")
    flags.DEFINE_bool("profile", False, "Also show the time of a step by op type.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
