"""Panels: groups of curves that share their axes, with a title and a scale.

`pictures.py` draws them. The tags are those that `replicate.Estimator` and K-FAC write.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from replicate.report.curves import TRAINING, Curve, Runs

BATCH = "training batch"
"""Label of curves that were logged in training."""

KFAC = "kfac/monitor/"
SPEED = "global_step/sec"
BYTES_SENT = "bytes_sent"
COUNTERS = (
    "skipped_steps",
    "rejected_steps",
    "refused_statistics",
    "retried_inverses",
    "eigen_inverses",
    "kept_inverses",
)
"""Counters of K-FAC. In a healthy run all of them stay at zero, except rejected steps."""

_EMPTY = Curve((), ())
_MOST_PANELS = 12
_SECONDS = ("covariance_seconds", "inverse_seconds", "apply_seconds")
_LOG_RATIO = 20


class Panel(NamedTuple):
    """Curves by label that share their axes. `is_log` is for a logarithmic scale of the values."""

    title: str
    curves: Mapping[str, Curve]
    is_log: bool = False

    @property
    def has_seconds(self) -> bool:
        """True if the time of every point is known."""
        return all(len(curve.seconds) == len(curve.steps) for curve in self.curves.values())


def label(run: str) -> str:
    """Returns the label of a run: "test" for "eval_test"."""
    return {TRAINING: BATCH, "eval": "evaluation"}.get(run, run.removeprefix("eval_"))


def main_panels(runs: Runs, most: int | None = _MOST_PANELS) -> list[Panel]:
    """Returns panels of loss, speed and all other scalars except K-FAC's, `most` at most."""
    tags = list(dict.fromkeys(tag for run in reversed(list(runs.values())) for tag in sorted(run)))
    others = [tag for tag in tags if tag not in ("loss", SPEED) and not tag.startswith(KFAC)]
    panels = []
    for tag in ["loss", *others, SPEED]:
        curves = {label(run): found[tag] for run, found in runs.items() if tag in found}
        if curves:
            title = "steps per second" if tag == SPEED else tag
            panels.append(Panel(title, curves, tag == "loss" and _spans_decades(curves.values())))
    return panels[:most]


def comparison_panels(found: Mapping[str, Runs]) -> list[Panel]:
    """Returns panels in which the curves of several model directories lie over each other.

    There is a panel for each scalar of each evaluation, and then for each scalar of training except
    K-FAC's. Those of the loss come first.
    """
    keys = dict.fromkeys(
        (run, tag)
        for runs in found.values()
        for run in sorted(runs, key=lambda run: run == TRAINING)
        for tag in sorted(runs[run])
        if not tag.startswith(KFAC)
    )
    panels = []
    for run, tag in sorted(keys, key=lambda key: (key[0] == TRAINING, key[1] != "loss")):
        curves = {name: runs[run][tag] for name, runs in found.items() if tag in runs.get(run, {})}
        title = "steps per second" if tag == SPEED else f"{tag}, {label(run)}"
        panels.append(Panel(title, curves, tag == "loss" and _spans_decades(curves.values())))
    return panels


def kfac_panels(runs: Runs) -> list[Panel]:
    """Returns panels with the health of K-FAC, or none if K-FAC did not train.

    Counters that stayed at zero are left out.
    """
    found = {
        tag.removeprefix(KFAC): curve
        for tag, curve in runs.get(TRAINING, {}).items()
        if tag.startswith(KFAC)
    }
    suffix = "/inverse_condition"
    conditions = {t.removesuffix(suffix): found[t] for t in sorted(found) if t.endswith(suffix)}
    panels = [
        Panel("damping", _chosen(found, ["damping"]), True),
        Panel("rho: loss change ÷ model change", _chosen(found, ["rho"])),
        Panel("condition of the damped factors", conditions, True),
        Panel("seconds of an update", _chosen(found, _SECONDS)),
        Panel(
            "counters",
            _chosen(found, [name for name in COUNTERS if any(found.get(name, _EMPTY).values)]),
        ),
    ]
    return [panel for panel in panels if panel.curves]


def _chosen(found: Mapping[str, Curve], names: Iterable[str]) -> dict[str, Curve]:
    return {name.replace("_", " "): found[name] for name in names if name in found}


def _spans_decades(curves: Iterable[Curve]) -> bool:
    values = [value for curve in curves for value in curve.values if math.isfinite(value)]
    return bool(values) and min(values) > 0 and max(values) > _LOG_RATIO * min(values)
