"""Timing side by side: programs take turns in short blocks, and medians are compared.

Whatever else the machine does then slows all of them, and a ratio inside one round means more than
two times of different minutes.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Program(Protocol):
    """Something whose steps are timed."""

    def run(self, steps: int) -> float:
        """Makes some steps; returns the mean number of seconds that one took."""


def mean_seconds(step: Callable[[], Any], steps: int) -> float:
    """Makes some steps; returns the mean number of seconds that one took."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps


def take_turns(
    programs: Mapping[str, Program], rounds: int, block: int, warm_up: int
) -> dict[str, list[float]]:
    """Times blocks of steps of each program, one program after the other, round after round.

    Args:
      programs: What to time, by name.
      rounds: How many blocks of each.
      block: Steps in a block.
      warm_up: Steps of each program before the first round, which are not timed.

    Returns:
      Seconds per step of each block, by program.
    """
    for program in programs.values():
        if warm_up:
            program.run(warm_up)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(program.run(block))
    return times


def ratios(times: Sequence[float], others: Sequence[float]) -> list[float]:
    """Returns the ratio of two programs' times in each round."""
    return [time / other for time, other in zip(times, others, strict=True)]


def spread(values: Sequence[float], digits: int) -> str:
    """Returns the median and, in brackets, the smallest and the largest value, as text."""
    median, least, most = (
        f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} [{least}, {most}]"
