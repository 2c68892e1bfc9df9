"""Ticks: round numbers along an axis, and short texts for them."""

import math

_STEPS = (1, 2, 5, 10)
_DAY = 86400
_TIME_STEPS = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    21600,
    43200,
    _DAY,
)


def linear_ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Returns `most` round numbers at most, ≥ 2, between two others, in equal distances."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    distance = next(power * step for step in _STEPS if power * step >= raw * (1 - 1e-9))
    if whole:
        distance = max(1.0, distance)
    return _multiples(distance, low, high)


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


def time_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns `most` round times at most, ≥ 2, between two others in seconds, equally apart."""
    raw = (high - low) / most
    if raw > _TIME_STEPS[-1]:
        return [_DAY * day for day in linear_ticks(low / _DAY, high / _DAY, most)]
    distance = next((step for step in _TIME_STEPS if step >= raw * (1 - 1e-9) and raw > 0.5), None)
    if distance is None:
        return linear_ticks(low, high, most)
    return _multiples(distance, low, high)


def _multiples(distance: float, low: float, high: float) -> list[float]:
    first = math.ceil(low / distance - 1e-9)
    last = math.floor(high / distance + 1e-9)
    return [number * distance for number in range(first, last + 1)]


def duration(seconds: float) -> str:
    """Returns a time in a few letters: 12 ms, 3.4 s, 5 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 1:
        return "0 s" if not seconds else f"{1000 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    if round(seconds) < 3600:
        return _in_two_units(round(seconds), 60, "min", "s")
    if round(seconds / 60) < 24 * 60:
        return _in_two_units(round(seconds / 60), 60, "h", "min")
    return _in_two_units(round(seconds / 3600), 24, "d", "h")


def _in_two_units(count: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(count, size)
    return f"{whole:,} {large} {rest} {small}" if rest else f"{whole:,} {large}"
