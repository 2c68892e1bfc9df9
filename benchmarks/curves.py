"""Curves of losses over training runs, and the steps that runs need to a loss."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks import harness


class Curve(NamedTuple):
    """A loss, or a share of wrong classes, over a run, with the seconds of its steps."""

    steps: list[int]
    seconds: list[float]
    losses: list[float]

    def reach(self, loss: float) -> int | None:
        """Returns the steps before the first measurement at or below a loss, or None."""
        pairs = zip(self.steps, self.losses, strict=True)
        return next((steps for steps, value in pairs if value <= loss), None)


def record(
    measure: Callable[[], float],
    train: Callable[[], float],
    steps: int,
    every: int,
    is_over: Callable[[Curve], bool] = lambda curve: False,
) -> Curve:
    """Trains, and returns the curve.

    Args:
      measure: Returns the loss.
      train: Makes `every` steps and returns their seconds.
      steps: Steps of the run.
      every: Steps between two measurements.
      is_over: Returns True for a curve that ends the run early.
    """
    curve, seconds = Curve([], [], []), 0.0
    for done in range(0, steps + 1, every):
        for values, value in zip(curve, (done, seconds, measure()), strict=True):
            values.append(value)
        if done == steps or is_over(curve):
            break
        seconds += train()
    return curve


class Raced(NamedTuple):
    """An optimizer's runs at its best setting, one for each seed.

    Attributes:
      setting: The setting as text.
      per_step: Seconds of a step.
      curves: The runs.
    """

    setting: str
    per_step: float
    curves: Sequence[Curve]


def table(
    raced: Mapping[str, Raced], losses: Sequence[float], unit: str, setting: str
) -> Iterator[str]:
    """Yields the lines of a table by optimizer: median steps to each loss, and these in seconds.

    Args:
      raced: Runs by optimizer.
      losses: Losses to reach.
      unit: Their unit.
      setting: Head of the column of settings.
    """
    rows = []
    for name, (text, per_step, curves) in raced.items():
        cells = [_cell(curves, loss, per_step) for loss in losses]
        last = harness.spread([curve.losses[-1] for curve in curves], 3)
        rows.append([name, text, f"{1000 * per_step:.1f}", *cells, last])
    to_reach = (f"{loss:g} {unit}" for loss in losses)
    return harness.table(("optimizer", setting, "ms per step", *to_reach, "end"), rows)


def _cell(curves: Sequence[Curve], loss: float, per_step: float) -> str:
    """Returns the median steps to a loss or, if some runs do not reach it, how many do."""
    reached = [steps for curve in curves if (steps := curve.reach(loss)) is not None]
    if len(reached) < len(curves):
        return f"{len(reached)} of {len(curves)} runs"
    steps = statistics.median(reached)
    return f"{steps:g} steps, {steps * per_step:.1f} s"
