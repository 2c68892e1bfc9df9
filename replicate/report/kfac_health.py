"""K-FAC's health in words: sentences about its curves, with advice where something is wrong.

The limits are those of docs/howto/kfac_tuning.md, which explains every curve.
"""

import math
import statistics
from collections.abc import Iterator, Mapping

from replicate.report.curves import Curve
from replicate.report.panels import COUNTERS, KFAC

_CONDITION = "/inverse_condition"
_MOST_CONDITION = 1e6
_LOW_RHO, _HIGH_RHO, _FAR_RHO = 0.25, 0.75, 1.5
_NEWEST = 10
_CHANGED = 1.01


def kfac_health(training: Mapping[str, Curve]) -> list[str]:
    """Returns sentences on the health of K-FAC; none if it did not train."""
    found = {
        tag.removeprefix(KFAC): curve for tag, curve in training.items() if tag.startswith(KFAC)
    }
    return [
        *_trouble(found),
        *_inverses(found),
        *_conditions(found),
        *_rho(found),
        *_damping(found),
    ]


def _trouble(found: Mapping[str, Curve]) -> Iterator[str]:
    """Yields sentences on steps and statistics."""
    counts = {name: _count(found[name]) for name in COUNTERS if name in found}
    advice = "Look for bad input, or lower the learning rate."
    if counts and not any(counts[name] for name in counts if name != "rejected_steps"):
        yield "All is well: every step, every statistic and every inverse was finite."
    if number := counts.get("skipped_steps"):
        yield f"{_many(number, 'step was', 'steps were')} not finite and skipped. {advice}"
    if number := counts.get("refused_statistics"):
        batches = _many(number, "batch was", "batches were")
        yield f"The curvature of {batches} not finite and left out. {advice}"
    if number := counts.get("rejected_steps"):
        yield f"{_many(number, 'step was', 'steps were')} undone; a few are normal."


def _inverses(found: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a sentence on inversions that needed help."""
    texts = {
        "retried_inverses": "needed more damping",
        "eigen_inverses": "needed an eigendecomposition",
        "kept_inverses": "failed, so that the last inverse was kept",
    }
    parts = [
        f"{_many(number, 'inversion', 'inversions')} {text}"
        for name, text in texts.items()
        if name in found and (number := _count(found[name]))
    ]
    if parts:
        yield f"{'; '.join(parts)}. If these grow, the damping is too low for the dtype."


def _conditions(found: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a sentence on the factor with the largest condition number."""
    last = {
        tag.removesuffix(_CONDITION): values[-1]
        for tag, curve in found.items()
        if tag.endswith(_CONDITION) and (values := _finite(curve))
    }
    if not last:
        return
    worst = max(last, key=last.__getitem__)
    size = f"The largest condition number is {last[worst]:.3g}, of {worst}"
    if last[worst] > _MOST_CONDITION:
        yield f"{size}: raise min_damping, or use CurvatureConfig(inverse_dtype=tf.float64)."
    else:
        yield f"{size}, which float32 can invert."


def _rho(found: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a sentence on how well the model predicts the loss."""
    values = _finite(found.get("rho", Curve((), ())))[-_NEWEST:]
    if not values:
        return
    rho = statistics.median(values)
    if rho < 0:
        told = "The loss rose where K-FAC predicted a fall"
    elif rho < _LOW_RHO:
        told = "The loss fell by far less than predicted: the steps are too long for the model"
    elif rho <= _HIGH_RHO:
        told = "The loss fell about as predicted: the damping is right"
    elif rho <= _FAR_RHO:
        told = "The loss fell as predicted: the damping may fall"
    else:
        told = "The loss fell by far more than predicted: steps could be longer"
    yield f"{told} (rho {rho:.2g})."


def _damping(found: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a sentence on the way of the damping."""
    values = _finite(found.get("damping", Curve((), ())))
    if not values:
        return
    first, last = values[0], values[-1]
    if last > first * _CHANGED:
        yield (
            f"The damping rose from {first:.3g} to {last:.3g}. If it rises without end, use larger "
            "batches or a smaller invert_every, and check the registration."
        )
    elif last * _CHANGED < first:
        yield f"The damping fell from {first:.3g} to {last:.3g}, as in a good run."
    else:
        yield f"The damping is {last:.3g}."


def _count(curve: Curve) -> int:
    values = _finite(curve)
    return int(values[-1]) if values else 0


def _finite(curve: Curve) -> list[float]:
    return [value for value in curve.values if math.isfinite(value)]


def _many(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
