"""Equality of what a program learns in two ways, by the numbers that it prints."""

import math
from collections.abc import Iterable, Mapping

from tools.published.runs import Run, Way

SAME = "the same digits"
CLOSE = "to 1e-6"
NOISE = "noise"
OTHER = "other numbers"
KINDS = (SAME, CLOSE, NOISE, OTHER)
"""Kinds of equality, best first: a cell of the table begins with one of them."""
_CLOSE = 1e-6


def difference(one: Iterable[float], other: Iterable[float]) -> float:
    """Returns the largest difference of two runs' numbers, by the largest number of the first.

    It is inf if the counts differ, or if one number alone is nan.
    """
    first, second = list(one), list(other)
    if len(first) != len(second):
        return math.inf
    pairs = zip(first, second, strict=True)
    apart = max((_apart(a, b) for a, b in pairs), default=0.0)
    scale = max((abs(each) for each in first if math.isfinite(each)), default=0.0)
    return apart / scale if scale else math.inf if apart else 0.0


def _apart(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    found = abs(one - other)
    return math.inf if math.isnan(found) else found


def equality(runs: Mapping[Way, Run]) -> str:
    """Returns a cell on the numbers of the rewritten program and those of one tower.

    It tells the kind, then how many numbers are the same, or by how much they differ. Noise is a
    difference that a program shows also when it runs a second time in the same way.
    """
    one, rewritten = (runs.get(way) for way in (Way.ONE, Way.REWRITTEN))
    if one is None or rewritten is None or one.stopper or rewritten.stopper:
        return "–"
    found = difference(one.results, rewritten.results)
    if found == 0:
        return f"{SAME} ({len(one.results)})"
    if found <= _CLOSE:
        return CLOSE
    again = runs.get(Way.AGAIN)
    if again is None or again.stopper or not (noise := difference(one.results, again.results)):
        return f"{OTHER}: {_shown(found)}"
    return f"{NOISE}: {_shown(found)}; one tower again {_shown(noise)}"


def _shown(found: float) -> str:
    return "nan or another count" if math.isinf(found) else f"{100 * found:.2g} %"
