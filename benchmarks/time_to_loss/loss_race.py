"""Races of optimizers to a training loss: runs and results.

Each optimizer chooses among the same number of settings. The target is the lowest training loss of
Adam. tensorflow/kfac races against Adam in its own environment, from the same initial weights and
on the same batches.

Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import harness
from benchmarks.curves import Curve
from benchmarks.time_to_loss.race_settings import BASELINE, BLOCK, SGD, Problem, Settings
from examples.lazy_module import LazyModule

loss_programs = LazyModule("benchmarks.time_to_loss.loss_programs")


class Run(NamedTuple):
    """One training run.

    Attributes:
      problem: Name of the problem.
      optimizer: A key of `BLOCK`.
      setting: One of its settings.
      seed: Seed of weights and batches.
      steps: Steps before each evaluation, starting at 0.
      seconds: Training time before each evaluation.
      losses: Mean loss over the training data at each evaluation.
    """

    problem: str
    optimizer: str
    setting: float
    seed: int
    steps: list[int]
    seconds: list[float]
    losses: list[float]

    @property
    def curve(self) -> Curve:
        """Steps, seconds and losses only."""
        return Curve(self.steps, self.seconds, self.losses)

    @property
    def lowest(self) -> float:
        """Lowest finite loss, or infinity if no loss is finite."""
        return min(filter(math.isfinite, self.losses), default=math.inf)

    def reaches(self, target: float) -> tuple[float, float]:
        """Returns steps and seconds at the first loss <= `target`, or infinities if none."""
        steps = self.curve.reach(target)
        if steps is None:
            return math.inf, math.inf
        return steps, self.seconds[self.steps.index(steps)]


class Result(NamedTuple):
    """Runs of an optimizer at its best setting, one for each seed.

    Attributes:
      curves: Training runs.
      steps: Steps to Adam's lowest loss with the same seed, or infinity if not reached.
      seconds: Training time to that loss, or infinity.
    """

    curves: list[Run]
    steps: list[float]
    seconds: list[float]


def grid(
    problem: Problem, settings: Settings, chosen: Collection[str], only_middle: bool = False
) -> list[dict[str, float]]:
    """Returns the settings of the chosen optimizers, for each race on a problem.

    `only_middle` is for one race only, with the middle setting of each optimizer.
    """
    names = [name for name in settings if name in chosen]
    columns = [settings[name][problem.name] for name in names]
    if only_middle:
        columns = [column[len(column) // 2 : len(column) // 2 + 1] for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def race(
    problem: Problem,
    settings: Mapping[str, float],
    seed: int,
    steps: int,
    weights: Sequence[np.ndarray] = (),
) -> list[Run]:
    """Trains with each optimizer, in alternating blocks.

    Steps are those of Adam, rounded down to a multiple of its block. The initial weights are drawn
    with the seed unless they are given.
    """
    programs = {
        name: loss_programs.Program(problem, name, x, seed, weights) for name, x in settings.items()
    }
    curves = {
        name: Run(problem.name, name, settings[name], seed, [0], [0.0], [program.loss()])
        for name, program in programs.items()
    }
    for _ in range(steps // BLOCK[BASELINE]):
        for name, program in programs.items():
            curve = curves[name]
            curve.seconds.append(curve.seconds[-1] + program.run(BLOCK[name]))
            curve.steps.append(curve.steps[-1] + BLOCK[name])
            curve.losses.append(program.loss())
    for program in programs.values():
        program.close()
    return list(curves.values())


def write_weights(path: pathlib.Path, problem: Problem, seed: int) -> None:
    """Writes the initial weights of our programs."""
    program = loss_programs.Program(problem, SGD, 0.0, seed)
    np.savez(path, *program.weights())
    program.close()


def read_weights(path: str) -> list[np.ndarray]:
    """Returns what `write_weights` wrote."""
    with np.load(path) as arrays:
        return [arrays[f"arr_{index}"] for index in range(len(arrays.files))]


def results(curves: Sequence[Run]) -> dict[str, Result]:
    """Finds each optimizer's best setting on one problem.

    Adam's best setting has the lowest median loss. Its lowest loss with each seed is the target of
    the other optimizers. Their best setting reaches the target in the least time or, if none
    reaches it, comes closest.
    """
    baseline = _best(curves, BASELINE, lambda curve: (curve.lowest,))
    targets = {curve.seed: curve.lowest for curve in baseline}
    found = {}
    present = {curve.optimizer for curve in curves}
    for name in filter(present.__contains__, BLOCK):
        chosen = baseline
        if name != BASELINE:
            chosen = _best(curves, name, lambda c: (c.reaches(targets[c.seed])[1], c.lowest))
        reached = [curve.reaches(targets[curve.seed]) for curve in chosen]
        steps, seconds = (list(column) for column in zip(*reached, strict=True))
        found[name] = Result(chosen, steps, seconds)
    return found


def _best(
    curves: Sequence[Run], optimizer: str, badness: Callable[[Run], tuple[float, ...]]
) -> list[Run]:
    """Returns the optimizer's runs at the setting with the smallest median `badness`."""
    ours = [curve for curve in curves if curve.optimizer == optimizer]
    settings = sorted({curve.setting for curve in ours})
    runs = [[curve for curve in ours if curve.setting == setting] for setting in settings]

    def median(run: Sequence[Run]) -> list[float]:
        return [statistics.median(values) for values in zip(*map(badness, run), strict=True)]

    return min(runs, key=median)


def line(curve: Run) -> str:
    """Describes a run, such as "autoencoder, adam 0.01, seed 1: 17.5 after 2000 steps, 2.98 s"."""
    run = f"{curve.problem}, {curve.optimizer} {curve.setting:g}, seed {curve.seed}"
    if not math.isfinite(curve.lowest):
        return f"{run}: no finite loss"
    steps, seconds = curve.reaches(curve.lowest)
    return f"{run}: {curve.lowest:.3g} after {steps:.0f} steps, {seconds:.2f} s"


def table(problem: str, found: Mapping[str, Result]) -> Iterator[str]:
    """Yields the lines of a table: "median [smallest, largest]" of the seeds."""
    baseline, rows = found[BASELINE], []
    for name, result in found.items():
        cells = (
            harness.spread([curve.lowest for curve in result.curves], 3, "g"),
            harness.spread(result.steps, 0),
            harness.spread(result.seconds, 2),
            harness.spread(harness.ratios(result.steps, baseline.steps), 3),
            harness.spread(harness.ratios(result.seconds, baseline.seconds), 3),
        )
        rows.append([name, f"{result.curves[0].setting:g}", *cells])
    ratios = "steps / Adam's", "seconds / Adam's"
    return harness.table((problem, "setting", "lowest loss", "steps", "seconds", *ratios), rows)
