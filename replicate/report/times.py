"""Times: how long a run took, and what its time was spent on.

Reads time.json of `replicate.Estimator`, which may be missing, damaged, or of another program. The
curves then tell the total.
"""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replicate.links import leads_out
from replicate.report.ticks import duration

TIME_FILE = "time.json"

KINDS = {
    "training": "training",
    "input": "waiting for input",
    "evaluation": "evaluation",
    "saving": "saving checkpoints",
    "start": "start",
}
"""Text for each kind of time in the file."""

_OTHERS = "evaluations and saves"


class Times(NamedTuple):
    """Times of a training job, over all of its calls and processes.

    Attributes:
      seconds: Text of a kind of time -> seconds. Empty if they are not known.
      per_step: Seconds of a step, with its wait for input; None if they are not known.
      first_step: Seconds from the newest call of train to its first step; None likewise.
      calls: Number of calls of train.
    """

    seconds: dict[str, float]
    per_step: float | None
    first_step: float | None
    calls: int

    @property
    def total(self) -> float:
        """Sum over all kinds, in seconds."""
        return sum(self.seconds.values())

    def facts(self, speeds: Sequence[float] = ()) -> dict[str, str]:
        """Returns texts by name: speed, total time, time per step, time to the first step.

        Args:
          speeds: Steps per second of each interval between two events, with the evaluations and
            saves in it. The time per step is without these, and a mean.
        """
        facts = {}
        if known := [speed for speed in speeds if math.isfinite(speed)]:
            span = f"median of {min(known):.4g} to {max(known):.4g}, {_OTHERS} included"
            facts["steps per second"] = f"{statistics.median(known):.4g} ({span})"
        if self.seconds:
            facts["total time"] = duration(self.total)
        if self.per_step:
            mean = f"mean, {1 / self.per_step:.4g} per second, {_OTHERS} not included"
            facts["time per step"] = f"{duration(self.per_step)} ({mean})"
        if self.first_step is not None:
            facts["time to first step"] = duration(self.first_step)
        return facts

    def shares(self) -> list[tuple[str, str, float]]:
        """Returns kind, duration and share of the total, in percent, of all that took time."""
        total = self.total
        return [
            (kind, duration(secs), 100 * secs / total)
            for kind, secs in self.seconds.items()
            if secs > 0
        ]


UNKNOWN = Times({}, None, None, 0)


def read_times(folder: Path) -> Times:
    """Reads the file of a model directory; never fails."""
    path = folder / TIME_FILE
    if leads_out(path, folder):
        return UNKNOWN
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return UNKNOWN
    if not isinstance(found, dict):
        return UNKNOWN
    given = found.get("seconds")
    given = given if isinstance(given, dict) else {}
    seconds = {text: secs for kind, text in KINDS.items() if (secs := _number(given.get(kind)))}
    steps = _number(found.get("steps"))
    stepping = sum(seconds.get(KINDS[kind], 0.0) for kind in ("training", "input"))
    return Times(
        seconds,
        stepping / steps if steps and stepping else None,
        _number(found.get("first_step_seconds")),
        int(_number(found.get("calls")) or 0),
    )


def _number(value: Any) -> float | None:
    """Returns a number that is finite and not negative, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < math.inf else None
