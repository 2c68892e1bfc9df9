"""Races of optimizers to a training loss: settings, runs and results.

Each optimizer chooses among the same number of settings. The target is the lowest training loss of
Adam. Other K-FAC implementations race against Adam in their own framework and environment, from the
same initial weights, on the same digits, with batches sampled in the same way.

Importing this module does not import TensorFlow.
"""

import json
import math
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import harness
from benchmarks.rivals import environments
from examples import mnist

PROBLEMS = ("autoencoder", "convnet")
BASELINE = "adam"
"""Optimizer whose lowest loss is the target of the others."""
SETTINGS = {
    "momentum": {"autoencoder": (0.01, 0.03, 0.1), "convnet": (0.02, 0.05, 0.1)},
    BASELINE: {"autoencoder": (0.005, 0.01, 0.02), "convnet": (0.005, 0.01, 0.02)},
    "kfac fixed": {"autoencoder": (0.01, 0.003, 0.001), "convnet": (0.01, 0.003, 0.001)},
    "kfac": {"autoencoder": (0.1, 0.03, 0.01), "convnet": (0.1, 0.03, 0.01)},
}
"""Settings by optimizer and problem. `loss_programs.Program` says what a setting means."""
BLOCK = {"momentum": 40, BASELINE: 40, "kfac fixed": 5, "kfac": 5}
"""Steps between two evaluations. K-FAC makes an eighth as many steps in all."""
DAMPING = {
    "tensorflow-kfac": {"autoencoder": (0.01, 0.001, 0.0001), "convnet": (0.1, 0.03, 0.01)},
    "kfac-jax": {"autoencoder": (1.0, 0.1, 0.01)},
}
"""Initial damping of each rival's K-FAC, which adapts it later, by problem."""


class Curve(NamedTuple):
    """One training run.

    Attributes:
      problem: One of `PROBLEMS`.
      optimizer: A key of `SETTINGS`.
      setting: One of its settings.
      seed: Seed of weights and batches.
      steps: Steps before each evaluation, starting at 0.
      seconds: Training time before each evaluation.
      losses: Mean loss over all training data at each evaluation.
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
        """The lowest finite loss, or infinity if no loss is finite."""
        return min(filter(math.isfinite, self.losses), default=math.inf)

    def reaches(self, target: float) -> tuple[float, float]:
        """Returns steps and seconds at the first loss <= `target`, or infinities if none."""
        for steps, seconds, loss in zip(self.steps, self.seconds, self.losses, strict=True):
            if loss <= target:
                return steps, seconds
        return math.inf, math.inf


class Result(NamedTuple):
    """Runs of an optimizer at its best setting, one for each seed.

    Attributes:
      curves: Training runs.
      steps: Steps to Adam's lowest loss with the same seed, or infinity if not reached.
      seconds: Training time to that loss, or infinity.
    """

    curves: list[Curve]
    steps: list[float]
    seconds: list[float]


def grid(problem: str) -> Iterator[dict[str, float]]:
    """Yields the settings of all optimizers, for each race on a problem."""
    rows = zip(*(settings[problem] for settings in SETTINGS.values()), strict=True)
    return (dict(zip(SETTINGS, row, strict=True)) for row in rows)


def race(problem: str, settings: Mapping[str, float], seed: int, steps: int) -> list[Curve]:
    """Trains with each optimizer, in alternating blocks.

    Args:
      problem: One of `PROBLEMS`.
      settings: Setting of each optimizer.
      seed: Seed of weights and batches.
      steps: Steps of Adam, rounded down to a multiple of its block.
    """
    from benchmarks.time_to_loss.loss_programs import Program  # noqa: PLC0415

    programs = {name: Program(problem, name, x, seed) for name, x in settings.items()}
    curves = {
        name: Curve(problem, name, settings[name], seed, [0], [0.0], [program.loss()])
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


def rival_grid(name: str, problem: str) -> Iterator[dict[str, float]]:
    """Yields the settings of Adam and of a rival's K-FAC, for each race on a problem."""
    rates = SETTINGS[BASELINE][problem]
    for rate, damping in zip(rates, DAMPING[name][problem], strict=True):
        yield {BASELINE: rate, "kfac": damping}


def race_rival(
    name: str, python: str, problem: str, seed: int, steps: int, seconds: float
) -> list[Curve]:
    """Trains a rival's K-FAC and Adam in the rival's environment, in alternating blocks.

    Args:
      name: Key of `environments.RIVALS`.
      python: Interpreter of the rival's environment.
      problem: One of `PROBLEMS`.
      seed: Seed of weights and batches.
      steps: Steps of Adam, rounded down to a multiple of its block.
      seconds: Time limit of the rival's process.

    Raises:
      harness.ChildError: The rival's process failed or exceeded the limit.
    """
    from benchmarks.time_to_loss import loss_programs  # noqa: PLC0415

    optimizers = (BASELINE, "kfac")
    task = {
        "problem": problem,
        "seed": seed,
        "batch_size": loss_programs.BATCH_SIZE,
        "warm_up": loss_programs.WARM_UP,
        "grid": list(rival_grid(name, problem)),
        "blocks": {optimizer: BLOCK[optimizer] for optimizer in optimizers},
        "rounds": steps // BLOCK[BASELINE],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "digits.npz"
        _write_start(path, problem, seed)
        command = environments.command(name, python, "losses", str(path), json.dumps(task))
        runs = harness.read_json(command, f"race {name}, {problem}, seed {seed}", seconds)
    return [Curve(problem=problem, seed=seed, **run) for run in runs]


def _write_start(path: pathlib.Path, problem: str, seed: int) -> None:
    """Writes the digits and the initial weights of our programs."""
    from benchmarks.time_to_loss import loss_programs  # noqa: PLC0415

    program = loss_programs.Program(problem, "momentum", 0.0, seed)
    start = {f"start_{index}": value for index, value in enumerate(program.weights())}
    program.close()
    train = mnist.load_digits().train
    np.savez(path, images=train.images, labels=train.labels, **start)


def results(curves: Sequence[Curve]) -> dict[str, Result]:
    """Finds each optimizer's best setting on one problem.

    Adam's best setting has the lowest median loss. Its lowest loss with each seed is the target of
    the other optimizers. Their best setting reaches the target in the least time or, if none
    reaches it, comes closest.

    Args:
      curves: All runs on the problem, including Adam's.
    """
    baseline = _best(curves, BASELINE, lambda curve: (curve.lowest,))
    targets = {curve.seed: curve.lowest for curve in baseline}
    found = {}
    present = {curve.optimizer for curve in curves}
    for name in filter(present.__contains__, SETTINGS):
        chosen = baseline
        if name != BASELINE:
            chosen = _best(curves, name, lambda c: (c.reaches(targets[c.seed])[1], c.lowest))
        reached = [curve.reaches(targets[curve.seed]) for curve in chosen]
        steps, seconds = (list(column) for column in zip(*reached, strict=True))
        found[name] = Result(chosen, steps, seconds)
    return found


def _best(
    curves: Sequence[Curve], optimizer: str, badness: Callable[[Curve], tuple[float, ...]]
) -> list[Curve]:
    """Returns the optimizer's runs at the setting with the smallest median `badness`."""
    ours = [curve for curve in curves if curve.optimizer == optimizer]
    settings = sorted({curve.setting for curve in ours})
    runs = [[curve for curve in ours if curve.setting == setting] for setting in settings]

    def median(run: Sequence[Curve]) -> list[float]:
        return [statistics.median(values) for values in zip(*map(badness, run), strict=True)]

    return min(runs, key=median)


def table(problem: str, found: Mapping[str, Result]) -> Iterator[str]:
    """Yields the lines of a table: "median [smallest, largest]" over the seeds."""
    yield (
        f"{problem:<13}{'setting':>9}{'lowest loss':>30}{'steps':>21}{'seconds':>21}"
        f"{'steps/Adam':>22}{'seconds/Adam':>22}"
    )
    baseline = found[BASELINE]
    for name, result in found.items():
        columns = (
            ([curve.lowest for curve in result.curves], ".3g"),
            (result.steps, ".0f"),
            (result.seconds, ".2f"),
            (_ratios(result.steps, baseline.steps), ".3f"),
            (_ratios(result.seconds, baseline.seconds), ".3f"),
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
