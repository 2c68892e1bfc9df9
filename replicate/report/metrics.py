"""The metrics of evaluations: which of their values are good, and the best of a curve.

Called by the pages.
"""

import math
import re
from typing import NamedTuple

from replicate.report.curves import Curve

LOW_IS_GOOD = frozenset(
    {"loss", "error", "mse", "rmse", "mae", "perplexity", "distance", "divergence"}
)
HIGH_IS_GOOD = frozenset(
    {"accuracy", "auc", "precision", "recall", "f1", "iou", "psnr", "ssim", "bleu"}
)
"""Words of a metric's name that tell which of its values are good."""


class Result(NamedTuple):
    """A value of a metric and its step."""

    value: float
    step: int


def direction(tag: str) -> str | None:
    """Returns "low" or "high", the side of the good values of a metric; None if it is unknown."""
    words = set(re.findall(r"[a-z]+\d*", tag.lower()))
    if words & LOW_IS_GOOD:
        return "low"
    return "high" if words & HIGH_IS_GOOD else None


def best(tag: str, curve: Curve) -> Result | None:
    """Returns the best finite value of a metric, or the last one if the best side is unknown.

    The first of several equal values counts. Returns None if no value is finite.
    """
    found = [
        Result(value, step)
        for step, value in zip(curve.steps, curve.values, strict=True)
        if math.isfinite(value)
    ]
    if not found:
        return None
    side = direction(tag)
    if side is None:
        return found[-1]
    values = [result.value for result in found]
    return found[values.index(min(values) if side == "low" else max(values))]
