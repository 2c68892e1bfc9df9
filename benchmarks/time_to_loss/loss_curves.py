"""Pictures of the training loss by steps and by seconds.

Imports Matplotlib, so `benchmarks.time_to_loss` imports this module only when it draws.
"""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.time_to_loss.loss_race import Result
from benchmarks.time_to_loss.race_settings import BASELINE, GROWING

# Okabe and Ito's colours, which colour-blind readers can tell apart. The dashes differ too.
_STYLES: dict[str, dict[str, Any]] = {
    "momentum": {"color": "#999999", "linestyle": ":", "label": "momentum SGD"},
    BASELINE: {"color": "#D55E00", "linestyle": "--", "label": "Adam"},
    "kfac fixed": {"color": "#009E73", "linestyle": "-.", "label": "K-FAC, fixed settings"},
    "kfac": {"color": "#0072B2", "linestyle": "-", "label": "K-FAC, adaptive"},
    GROWING: {"color": "#0072B2", "linestyle": (0, (2, 1)), "label": "K-FAC, growing batches"},
    "tensorflow-kfac": {"color": "#CC79A7", "linestyle": (0, (5, 1)), "label": "tensorflow/kfac"},
}
_PIXELS_PER_INCH = 120
_LOGARITHMIC_ABOVE = 100  # first loss / target


def draw(found: Mapping[str, Mapping[str, Result]], path: str) -> None:
    """Draws a row of two panels for each problem into a PNG file.

    Results are by optimizer and, for other K-FACs, by their name; by problem.
    """
    rows = len(found)
    figure = Figure(figsize=(10, 0.7 + 3.6 * rows), dpi=_PIXELS_PER_INCH, layout="constrained")
    figure.suptitle("Training loss, each optimizer at its best setting", fontweight="bold")
    panels = figure.subplots(rows, 2, squeeze=False)
    for (problem, results), (by_steps, by_seconds) in zip(found.items(), panels, strict=True):
        for axes, unit in ((by_steps, "steps"), (by_seconds, "seconds")):
            _panel(axes, results, unit)
            axes.set_title(f"{problem}, by {unit}", loc="left", fontsize=11)
    panels[0][0].legend(frameon=False, loc="upper right")
    figure.savefig(path)


def _panel(axes: Axes, results: Mapping[str, Result], unit: str) -> None:
    """Draws every run, and Adam's lowest loss as a horizontal line."""
    for name, result in results.items():
        style = dict(_STYLES[name])
        for curve in result.curves:
            axes.plot(getattr(curve, unit), curve.losses, linewidth=1.2, alpha=0.8, **style)
            style.pop("label", None)
    baseline = results[BASELINE].curves
    target = statistics.median(curve.lowest for curve in baseline)
    axes.axhline(target, color="black", linewidth=0.7)
    axes.set_xlabel(unit)
    axes.set_xlim(0, max(getattr(curve, unit)[-1] for curve in baseline))
    first = max(loss for curve in baseline for loss in curve.losses if math.isfinite(loss))
    if first / target > _LOGARITHMIC_ABOVE:
        axes.set_yscale("log")
        axes.set_ylim(target / 10, 2 * first)
    else:
        margin = 0.25 * (first - target)
        axes.set_ylim(target - margin / 4, target + margin)
    axes.grid(color="#E6E6E6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
