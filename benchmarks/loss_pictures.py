"""Pictures of training losses: a row for each problem, by steps on the left, by seconds right.

Imports Matplotlib when it draws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.curves import Curve
from examples.lazy_module import LazyModule

figures = LazyModule("matplotlib.figure")

# Okabe and Ito's colours, which colour-blind readers can tell apart. The dashes differ too.
STYLES: dict[str, dict[str, Any]] = {
    "momentum SGD": {"color": "#999999", "linestyle": ":"},
    "Adam": {"color": "#D55E00", "linestyle": "--"},
    "AdamW": {"color": "#D55E00", "linestyle": "--"},
    "Muon": {"color": "#E69F00", "linestyle": (0, (5, 1))},
    "K-FAC, fixed settings": {"color": "#009E73", "linestyle": "-."},
    "K-FAC": {"color": "#0072B2", "linestyle": "-"},
    "K-FAC, adaptive": {"color": "#0072B2", "linestyle": "-"},
    "K-FAC, growing batches": {"color": "#0072B2", "linestyle": (0, (2, 1))},
    "K-FAC-reduce": {"color": "#009E73", "linestyle": "-."},
    "SOAP": {"color": "#CC79A7", "linestyle": (0, (3, 1, 1, 1))},
    "tensorflow/kfac": {"color": "#CC79A7", "linestyle": (0, (5, 1))},
}
"""How the lines of an optimizer look, by its name in the legend."""

NAMES = {
    "momentum": "momentum SGD",
    "SGD": "momentum SGD",
    "adam": "Adam",
    "kfac fixed": "K-FAC, fixed settings",
    "kfac": "K-FAC, adaptive",
    "kfac growing": "K-FAC, growing batches",
    "K-FAC, expand": "K-FAC",
    "K-FAC, reduce": "K-FAC-reduce",
    "tensorflow-kfac": "tensorflow/kfac",
}
"""Names in the legend of optimizers that benchmarks call otherwise."""

_PIXELS_PER_INCH = 120
_ROW_INCHES = 3.9
_LOGARITHMIC_ABOVE = 20  # first loss / target


class Row(NamedTuple):
    """The runs on one problem.

    Attributes:
      title: Name of the problem.
      runs: Training runs by optimizer, a key of `NAMES` or `STYLES`.
      target: A loss, drawn as a horizontal line.
      target_label: Its words in the legend.
      shown: The optimizer whose runs decide how far the axes go; empty: all.
    """

    title: str
    runs: Mapping[str, Sequence[Curve]]
    target: float
    target_label: str
    shown: str = ""


def draw(
    title: str, loss: str, rows: Sequence[Row], path: str, seconds: str = "seconds of training"
) -> None:
    """Draws the rows into a PNG file.

    Args:
      title: Title of the picture.
      loss: Label of the vertical axes: name and unit of the loss.
      rows: One for each problem.
      path: File to write.
      seconds: Label of the horizontal axes on the right.
    """
    size = (10, 0.4 + _ROW_INCHES * len(rows))
    figure = figures.Figure(figsize=size, dpi=_PIXELS_PER_INCH, layout="constrained")
    figure.suptitle(title, fontweight="bold")
    for row, panels in zip(rows, figure.subplots(len(rows), 2, squeeze=False), strict=True):
        for axes, unit in zip(panels, ("steps", "seconds"), strict=True):
            _panel(axes, row, unit)
            axes.set_title(f"{row.title}, by {unit}", loc="left", fontsize=11)
            axes.set_xlabel("training steps" if unit == "steps" else seconds)
        panels[0].set_ylabel(loss)
        panels[0].legend(frameon=False, loc="upper right", fontsize=9)
    figure.savefig(path)


def _panel(axes: Any, row: Row, unit: str) -> None:
    """Draws every run, and the target."""
    for optimizer, curves in row.runs.items():
        name = NAMES.get(optimizer, optimizer)
        style = {"linewidth": 1.3, "alpha": 0.8, **STYLES[name]}
        for number, curve in enumerate(curves):
            label = "_" if number else name
            axes.plot(getattr(curve, unit), curve.losses, label=label, **style)
    axes.axhline(row.target, color="black", linewidth=0.7, label=row.target_label)
    chosen = [row.shown] if row.shown else row.runs
    shown = [curve for optimizer in chosen for curve in row.runs[optimizer]]
    axes.set_xlim(0, max(getattr(curve, unit)[-1] for curve in shown))
    first = max(loss for curve in shown for loss in curve.losses if math.isfinite(loss))
    if first / row.target > _LOGARITHMIC_ABOVE:
        axes.set_yscale("log")
        axes.set_ylim(row.target / 4, 2 * first)
    else:
        margin = 0.25 * (first - row.target)
        last = min(curve.losses[-1] for curve in shown)
        axes.set_ylim(min(row.target, last) - margin / 4, row.target + margin)
    axes.grid(color="#E6E6E6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
