"""Pictures: panels side by side in a PNG file.

Matplotlib is imported when the first picture is drawn, and opens no windows. Colours are those of
Okabe and Ito, which colour-blind readers can tell apart. Curves of few points also have markers.
"""

import importlib
import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from replicate.report.panels import BATCH, Panel
from replicate.report.ticks import duration, time_ticks

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_GREY = "#999999"
_FEW_POINTS = 20
_MOST_LABELS = 8
_MOST_TICKS = 5
_PANEL_INCHES = (4.6, 3.3)
_PIXELS_PER_INCH = 110


def draw(panels: Sequence[Panel], path: Path, title: str, by_seconds: bool = False) -> None:
    """Draws panels, at least one, in rows of at most three; replaces an existing file.

    `by_seconds` draws curves over the seconds of training instead of steps.
    """
    figure_module = importlib.import_module("matplotlib.figure")
    columns = min(len(panels), 2 if len(panels) == 4 else 3)
    rows = math.ceil(len(panels) / columns)
    width, height = _PANEL_INCHES
    figure = figure_module.Figure(
        figsize=(columns * width, rows * height), dpi=_PIXELS_PER_INCH, layout="constrained"
    )
    figure.suptitle(title, fontweight="bold", parse_math=False)
    for place, panel in enumerate(panels):
        _fill(figure.add_subplot(rows, columns, place + 1), panel, by_seconds)
    with warnings.catch_warnings():
        # A name may have characters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(path)


def _fill(axes: Any, panel: Panel, by_seconds: bool) -> None:
    """Draws one panel."""
    styles = itertools.cycle(zip(_COLORS, _MARKERS, strict=True))
    for name, curve in panel.curves.items():
        lone = "o" if len(curve.steps) == 1 else None  # A line of one point would not be seen.
        color, marker = (_GREY, lone) if name == BATCH else next(styles)
        is_few = len(curve.steps) <= _FEW_POINTS
        axes.plot(
            curve.seconds if by_seconds else curve.steps,
            curve.values,
            label=name,
            color=color,
            marker=marker if is_few else None,
            markersize=4,
            linewidth=1.4 if is_few else 0.9,
        )
    if panel.is_log:
        axes.set_yscale("log")
    if len(panel.curves) > 1:
        shown = axes.get_legend_handles_labels()
        legend = axes.legend(
            *(e[:_MOST_LABELS] for e in shown), fontsize=8, framealpha=0.7, edgecolor="w"
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    if by_seconds:
        low, high = axes.get_xlim()
        ticks = time_ticks(low, high, _MOST_TICKS)
        axes.set_xticks(ticks, [duration(tick) for tick in ticks])
    else:
        ticker = importlib.import_module("matplotlib.ticker")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=_MOST_TICKS, integer=True))
    axes.set_title(panel.title, loc="left", fontsize=10, parse_math=False)
    axes.set_xlabel("time of training" if by_seconds else "step", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#E6E6E6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
