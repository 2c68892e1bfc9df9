"""How long a step of K-FAC takes, as a multiple of one of momentum SGD on the same model.

Both optimizers train in the same process, in short blocks that take turns, so that whatever else
the machine does slows both. Beside the measured ratio stands that of the floating-point operations
that the textbook algorithm needs, and with --profile where the time goes, by kind of op.

    python -m benchmarks.kfac_step --model=convnet --model=autoencoder --repeats=7
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import app, flags

MODELS = ("convnet", "autoencoder")

_MODEL = flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "What to train; may be repeated.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Pairs of blocks to time.", lower_bound=1)
_BLOCK = flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
_MOMENTUM_TYPE = flags.DEFINE_enum(
    "momentum_type", "regular", ["regular", "adam"], "Momentum of K-FAC."
)
_JSON = flags.DEFINE_string("json", None, "File to write the measurements to.")
_PROFILE = flags.DEFINE_bool("profile", False, "Also show where the time of a step goes.")


class Measurement(NamedTuple):
    """Seconds per step, by pair of blocks.

    Attributes:
      model: Name of the model.
      momentum: Of momentum SGD.
      kfac: Of K-FAC, its inverses included.
      operations: Ratio of the floating-point operations of the two, by the textbook.
    """

    model: str
    momentum: list[float]
    kfac: list[float]
    operations: float

    @property
    def ratios(self) -> list[float]:
        """K-FAC over momentum, by pair."""
        return [k / m for k, m in zip(self.kfac, self.momentum, strict=True)]


def measure(model: str) -> Measurement:
    """Times blocks of steps of both optimizers in turn, after one block of each to warm up."""
    from benchmarks import step_programs as programs  # noqa: PLC0415

    batch_size = _BATCH_SIZE.value
    pair = [
        programs.Program(model, name, batch_size, _MOMENTUM_TYPE.value)
        for name in ("momentum", "kfac")
    ]
    for program in pair:
        program.run(2 * programs.INVERT_EVERY)
    times = [[program.run(_BLOCK.value) for program in pair] for _ in range(_REPEATS.value)]
    momentum, kfac = (list(column) for column in zip(*times, strict=True))
    counts = programs.operations(programs.layer_sizes(model), batch_size)
    return Measurement(model, momentum, kfac, programs.operations_ratio(counts))


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yields the lines of a table of medians and, in brackets, the smallest and the largest."""
    yield f"{'model':<13}{'momentum ms':>22}{'K-FAC ms':>24}{'ratio':>19}{'operations':>12}"
    for found in measurements:
        times = [[1e3 * t for t in values] for values in (found.momentum, found.kfac)]
        yield (
            f"{found.model:<13}{_spread(times[0], 1):>22}{_spread(times[1], 1):>24}"
            f"{_spread(found.ratios, 2):>19}{found.operations:>12.2f}"
        )


def _spread(values: Sequence[float], digits: int) -> str:
    def show(x: float) -> str:
        return f"{x:.{digits}f}"

    return f"{show(statistics.median(values))} [{show(min(values))}, {show(max(values))}]"


def profile(model: str) -> Iterator[str]:
    """Yields the time by kind of op of steps of momentum, K-FAC, and K-FAC with inverses."""
    from benchmarks import step_programs as programs  # noqa: PLC0415

    batch_size = _BATCH_SIZE.value
    momentum, kfac = (
        programs.Program(model, name, batch_size, _MOMENTUM_TYPE.value)
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
    """Measures, prints, writes."""
    del argv
    measurements = [measure(model) for model in _MODEL.value]
    for line in table(measurements):
        print(line)
    if _PROFILE.value:
        for model in _MODEL.value:
            print("\n".join(profile(model)))
    if _JSON.value:
        with open(_JSON.value, "w", encoding="utf-8") as file:
            json.dump([found._asdict() for found in measurements], file, indent=2)


if __name__ == "__main__":
    app.run(main)
