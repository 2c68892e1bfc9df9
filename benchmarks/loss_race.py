"""Races of optimizers to a training loss: who takes part, how they are run, and who has won.

Needs TensorFlow only while it races. Called by `benchmarks.time_to_loss`, which shows what is found
together with `benchmarks.loss_curves`, and by `benchmarks.rival_races`.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

PROBLEMS = ("autoencoder", "convnet")
RIVAL = "adam"
SETTINGS = {
    "momentum": {"autoencoder": (0.01, 0.03, 0.1), "convnet": (0.02, 0.05, 0.1)},
    RIVAL: {"autoencoder": (0.005, 0.01, 0.02), "convnet": (0.005, 0.01, 0.02)},
    "kfac fixed": {"autoencoder": (0.01, 0.003, 0.001), "convnet": (0.01, 0.003, 0.001)},
    "kfac": {"autoencoder": (0.1, 0.03, 0.01), "convnet": (0.1, 0.03, 0.01)},
}
"""What each optimizer may choose from; what it is of each is in `benchmarks.loss_programs`."""
BLOCK = {"momentum": 40, RIVAL: 40, "kfac fixed": 5, "kfac": 5}
"""Steps between two evaluations. K-FAC makes an eighth of the steps in all."""


class Curve(NamedTuple):
    """One training run.

    Attributes:
      problem: One of `PROBLEMS`.
      optimizer: A key of `SETTINGS`.
      setting: One of its settings.
      seed: Of weights and batches.
      steps: Made before each evaluation, the first at 0.
      seconds: Spent on them.
      losses: Over all training data.
    """

    problem: str
    optimizer: str
    setting: float
    seed: int
    steps: list[int]
    seconds: list[float]
    losses: list[float]

    @property
    def lowest(self) -> float:
        """The lowest loss; infinite if there is none that is finite."""
        return min(filter(math.isfinite, self.losses), default=math.inf)

    def reaches(self, target: float) -> tuple[float, float]:
        """Returns the steps and seconds at the first loss that is as low; infinite if none is."""
        for steps, seconds, loss in zip(self.steps, self.seconds, self.losses, strict=True):
            if loss <= target:
                return steps, seconds
        return math.inf, math.inf


class Result(NamedTuple):
    """An optimizer at its best setting, by seed.

    Attributes:
      curves: Its runs.
      steps: To the rival's lowest loss of the same seed; infinite if not reached.
      seconds: To there.
    """

    curves: list[Curve]
    steps: list[float]
    seconds: list[float]


def grid(problem: str) -> Iterator[dict[str, float]]:
    """Yields for each race on a problem the setting of each optimizer."""
    rows = zip(*(settings[problem] for settings in SETTINGS.values()), strict=True)
    return (dict(zip(SETTINGS, row, strict=True)) for row in rows)


def race(problem: str, settings: Mapping[str, float], seed: int, steps: int) -> list[Curve]:
    """Trains with each optimizer, in blocks that take turns.

    Args:
      problem: One of `PROBLEMS`.
      settings: By optimizer.
      seed: Of weights and batches.
      steps: Of the rival; rounded down to a multiple of its block.
    """
    from benchmarks.loss_programs import Program  # noqa: PLC0415

    programs = {name: Program(problem, name, x, seed) for name, x in settings.items()}
    curves = {
        name: Curve(problem, name, settings[name], seed, [0], [0.0], [program.loss()])
        for name, program in programs.items()
    }
    for _ in range(steps // BLOCK[RIVAL]):
        for name, program in programs.items():
            curve = curves[name]
            curve.seconds.append(curve.seconds[-1] + program.run(BLOCK[name]))
            curve.steps.append(curve.steps[-1] + BLOCK[name])
            curve.losses.append(program.loss())
    for program in programs.values():
        program.close()
    return list(curves.values())


def results(curves: Sequence[Curve]) -> dict[str, Result]:
    """Finds each optimizer's best setting on one problem.

    The rival's is that with the lowest median loss. What it reached with it, seed by seed, is the
    others' target; theirs are those that took least time to it, or came closest.

    Args:
      curves: All runs on the problem, the rival's among them.
    """
    rivals = _best(curves, RIVAL, lambda curve: (curve.lowest,))
    targets = {curve.seed: curve.lowest for curve in rivals}
    found = {}
    present = {curve.optimizer for curve in curves}
    for name in filter(present.__contains__, SETTINGS):
        chosen = rivals
        if name != RIVAL:
            chosen = _best(curves, name, lambda c: (c.reaches(targets[c.seed])[1], c.lowest))
        reached = [curve.reaches(targets[curve.seed]) for curve in chosen]
        steps, seconds = (list(column) for column in zip(*reached, strict=True))
        found[name] = Result(chosen, steps, seconds)
    return found


def _best(
    curves: Sequence[Curve], optimizer: str, badness: Callable[[Curve], tuple[float, ...]]
) -> list[Curve]:
    """Returns an optimizer's runs with the setting whose median badness is least."""
    ours = [curve for curve in curves if curve.optimizer == optimizer]
    settings = sorted({curve.setting for curve in ours})
    runs = [[curve for curve in ours if curve.setting == setting] for setting in settings]

    def median(run: Sequence[Curve]) -> list[float]:
        return [statistics.median(values) for values in zip(*map(badness, run), strict=True)]

    return min(runs, key=median)


def table(problem: str, found: Mapping[str, Result]) -> Iterator[str]:
    """Yields the lines of a table: medians over the seeds and, in brackets, the extremes."""
    yield (
        f"{problem:<13}{'setting':>9}{'lowest loss':>30}{'steps':>21}{'seconds':>21}"
        f"{'steps/Adam':>22}{'seconds/Adam':>22}"
    )
    rival = found[RIVAL]
    for name, result in found.items():
        columns = (
            ([curve.lowest for curve in result.curves], ".3g"),
            (result.steps, ".0f"),
            (result.seconds, ".2f"),
            (_ratios(result.steps, rival.steps), ".3f"),
            (_ratios(result.seconds, rival.seconds), ".3f"),
        )
        widths = (30, 21, 21, 22, 22)
        cells = [
            f"{_spread(*column):>{width}}" for column, width in zip(columns, widths, strict=True)
        ]
        yield f"{name:<13}{result.curves[0].setting:>9g}" + "".join(cells)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def _spread(values: Sequence[float], form: str) -> str:
    def show(x: float) -> str:
        return f"{x:{form}}" if math.isfinite(x) else "–"

    return f"{show(statistics.median(values))} [{show(min(values))}, {show(max(values))}]"
