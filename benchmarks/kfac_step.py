"""How long a step of K-FAC takes, as a multiple of one of momentum SGD on the same model.

Both optimizers train in the same process, in short blocks that take turns, so that whatever else
the machine does slows both. Beside the measured ratio stand the floating-point operations that the
textbook algorithm needs and those that were executed, and with --profile where the time goes, by
kind of op.

    python -m benchmarks.kfac_step --model=convnet --batch_size=1024 --repeats=7
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import app, flags

from benchmarks import record, timing

MODELS = ("convnet", "autoencoder")

FLAGS = flags.FLAGS


class Operations(NamedTuple):
    """Floating-point operations per step.

    Attributes:
      momentum: Of momentum SGD.
      kfac: Of K-FAC, its inverses included.
    """

    momentum: float
    kfac: float

    @property
    def ratio(self) -> float:
        """K-FAC over momentum."""
        return self.kfac / self.momentum

    def __str__(self) -> str:
        """Returns both in 10⁹, and their ratio."""
        return f"{self.momentum / 1e9:.2f}, {self.kfac / 1e9:.2f}: {self.ratio:.2f}"


class Measurement(NamedTuple):
    """Seconds and operations per step.

    Attributes:
      model: Name of the model.
      momentum: Seconds of momentum SGD, by pair of blocks.
      kfac: Seconds of K-FAC, its inverses included, by pair of blocks.
      textbook: Operations by the textbook.
      executed: Operations that were executed.
    """

    model: str
    momentum: list[float]
    kfac: list[float]
    textbook: Operations
    executed: Operations

    @property
    def ratios(self) -> list[float]:
        """K-FAC over momentum, by pair."""
        return timing.ratios(self.kfac, self.momentum)


def measure(model: str) -> Measurement:
    """Times blocks of steps of both optimizers in turn, and counts their operations."""
    from benchmarks import step_programs as programs  # noqa: PLC0415

    batch_size = FLAGS.batch_size
    pair = {
        name: programs.Program(model, name, batch_size, FLAGS.momentum_type)
        for name in ("momentum", "kfac")
    }
    warm_up = 2 * programs.INVERT_EVERY
    times = timing.take_turns(pair, FLAGS.repeats, FLAGS.block, warm_up)
    counts = programs.operations(programs.layer_sizes(model), batch_size)
    return Measurement(
        model,
        **times,
        textbook=Operations(programs.momentum_operations(counts), sum(counts.values())),
        executed=Operations(*(program.executed_operations() for program in pair.values())),
    )


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yields the lines of a table of medians and, in brackets, the smallest and the largest.

    Operations are 10⁹ of momentum SGD and of K-FAC, and their ratio.
    """
    yield (
        f"{'model':<13}{'momentum ms':>22}{'K-FAC ms':>24}{'ratio':>19}"
        f"{'textbook operations':>24}{'executed':>24}"
    )
    for found in measurements:
        times = [[1e3 * t for t in values] for values in (found.momentum, found.kfac)]
        yield (
            f"{found.model:<13}{timing.spread(times[0], 1):>22}{timing.spread(times[1], 1):>24}"
            f"{timing.spread(found.ratios, 2):>19}{found.textbook!s:>24}{found.executed!s:>24}"
        )


def profile(model: str) -> Iterator[str]:
    """Yields the time by kind of op of steps of momentum, K-FAC, and K-FAC with inverses."""
    from benchmarks import step_programs as programs  # noqa: PLC0415

    batch_size = FLAGS.batch_size
    momentum, kfac = (
        programs.Program(model, name, batch_size, FLAGS.momentum_type)
        for name in ("momentum", "kfac")
    )
    for program in (momentum, kfac):
        program.run(2 * programs.INVERT_EVERY)
    with_inverses, plain, without = kfac.profile(), momentum.profile(), kfac.profile()
    yield f"{model}: ms by kind of op, of all threads together"
    yield f"{'momentum':>12}{'K-FAC':>12}{'inverses':>12}"
    for kind in sorted(with_inverses, key=lambda kind: -with_inverses[kind])[:20]:
        columns = (plain.get(kind, 0.0), without.get(kind, 0.0), with_inverses[kind])
        yield "".join(f"{value:>12.1f}" for value in columns) + f"  {kind}"
    yield f"{model}: 10⁹ floating-point operations by the textbook"
    for purpose, count in programs.operations(programs.layer_sizes(model), batch_size).items():
        yield f"{count / 1e9:>12.2f}  {purpose}"


def main(argv: Sequence[str]) -> None:
    """Measures, prints, writes, draws."""
    del argv
    measurements = [measure(model) for model in FLAGS.model]
    for line in table(measurements):
        print(line)
    if FLAGS.profile:
        for model in FLAGS.model:
            print("\n".join(profile(model)))
    if FLAGS.json:
        record.write(FLAGS.json, [found._asdict() for found in measurements])
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
        record.draw_bars(FLAGS.picture, groups, title, "ratio")


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "What to train; may be repeated.")
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("repeats", 7, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    flags.DEFINE_enum("momentum_type", "regular", ["regular", "adam"], "Momentum of K-FAC.")
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the ratios to.")
    flags.DEFINE_bool("profile", False, "Also show where the time of a step goes.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
