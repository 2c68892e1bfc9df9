"""Ticks: round numbers along an axis, and short texts for them."""

import math

_STEPS = (1, 2, 5, 10)


def linear_ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Returns round numbers between two others, in equal distances.

    Args:
      low: Start of the axis.
      high: End of the axis, > low.
      most: Number of ticks, ≥ 2.
      whole: True for whole numbers only.
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    distance = next(power * step for step in _STEPS if power * step >= raw * (1 - 1e-9))
    if whole:
        distance = max(1.0, distance)
    first = math.ceil(low / distance - 1e-9)
    last = math.floor(high / distance + 1e-9)
    return [number * distance for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns powers of ten between two positive numbers, or finer ticks if there are too few."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = range(first, last + 1)
    if len(powers) >= 2:
        stride = math.ceil(len(powers) / most)
        return [10.0**power for power in powers[::stride]]
    fine = [
        step * 10.0**power
        for power in range(first - 1, last + 2)
        for step in (1, 2, 5)
        if low * (1 - 1e-9) <= step * 10.0**power <= high * (1 + 1e-9)
    ]
    return fine if len(fine) >= 2 else linear_ticks(low, high, most)


def short(value: float) -> str:
    """Returns a number in a few letters: 0.25, 2k, 3M, 1e-05."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < size * 1000:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
