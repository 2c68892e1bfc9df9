"""Whether a rewritten program learns what it learnt before, by the numbers that it prints."""

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
    """Returns the largest relative difference of two runs' numbers; inf if their counts differ."""
    first, second = list(one), list(other)
    if len(first) != len(second):
        return math.inf
    return max((_relative(a, b) for a, b in zip(first, second, strict=True)), default=0.0)


def _relative(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    told = abs(one - other) / abs(one) if one else math.inf
    return math.inf if math.isnan(told) else told


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
    return "another count" if math.isinf(found) else f"{100 * found:.2g} %"
