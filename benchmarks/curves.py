"""Curves of losses over training runs, and the steps that runs need to a loss."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple


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


def cell_of_loss(curves: Sequence[Curve], loss: float, per_step: float) -> str:
    """Returns a cell: the median of the runs' steps to a loss, and these in seconds.

    If some runs do not reach it, it says how many do. `per_step` is in seconds.
    """
    reached = [steps for curve in curves if (steps := curve.reach(loss)) is not None]
    if len(reached) < len(curves):
        return f"{len(reached)} of {len(curves)} runs"
    steps = statistics.median(reached)
    return f"{steps:g} steps, {steps * per_step:.1f} s"
