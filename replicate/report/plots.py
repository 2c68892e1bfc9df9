"""Plots: the geometry of panels, which a template turns into SVG inside the page.

Coordinates are in the units of the picture's viewBox. Colours are numbers, for which the page has a
light and a dark set. Points that are not finite are gaps, and counted.

A picture of some hundred pixels cannot show thousands of points: long curves are thinned.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from replicate.report.curves import Curve
from replicate.report.panels import BATCH, Panel
from replicate.report.ticks import duration, linear_ticks, log_ticks, short, time_ticks

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 24
NUM_COLORS = 7

_FEW_POINTS = 20
_MOST_CURVES = 21
_HUGE = 1e300
_PADDING = 0.04


class Tick(NamedTuple):
    """A labelled place on an axis."""

    place: float
    text: str


class Series(NamedTuple):
    """One curve.

    Attributes:
      name: Text of the legend.
      style: Classes of its colour and its dashes.
      path: SVG path.
      markers: Place and text of each point; empty for curves of many points.
      last: Text of the last finite value.
    """

    name: str
    style: str
    path: str
    markers: list[tuple[float, float, str]]
    last: str


class Plot(NamedTuple):
    """One picture.

    Attributes:
      title: Title above the picture.
      series: The curves.
      x_ticks: Ticks of the steps, or of the times.
      y_ticks: Ticks of the values.
      notes: Sentences about points and curves that are not drawn.
      is_empty: True if no point can be drawn.
      by_seconds: The same curves over the seconds of training; None if these are not known.
    """

    title: str
    series: list[Series]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    notes: list[str]
    is_empty: bool
    by_seconds: "Plot | None" = None


class _Across(NamedTuple):
    """Numbers along the horizontal axis.

    Attributes:
      ticks: Returns at most so many round numbers between two others.
      tick_text: Returns the text of a tick.
      place_text: Returns the words that tell the place of a point.
    """

    ticks: Callable[[float, float, int], list[float]]
    tick_text: Callable[[float], str]
    place_text: Callable[[float], str]


_STEPS = _Across(
    lambda low, high, most: linear_ticks(low, high, most, True), short, lambda x: f"at step {x:,}"
)
_SECONDS = _Across(time_ticks, duration, lambda x: f"after {duration(x)}")


class _Axis(NamedTuple):
    """Place of a number along an axis."""

    low: float
    high: float
    start: float
    end: float
    scale: Callable[[float], float]

    def place(self, value: float) -> float:
        low, high = self.scale(self.low), self.scale(self.high)
        share = (self.scale(value) - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)


def plot(panel: Panel) -> Plot:
    """Returns the picture of a panel, by steps and by seconds."""
    by_steps = _plot(panel, _STEPS)
    if by_steps.is_empty or not panel.has_seconds:
        return by_steps
    timed = {name: Curve(c.seconds, c.values) for name, c in panel.curves.items()}  # type: ignore[arg-type]
    return by_steps._replace(by_seconds=_plot(panel._replace(curves=timed), _SECONDS))


def _plot(panel: Panel, across: _Across) -> Plot:
    shown = dict(list(panel.curves.items())[:_MOST_CURVES])
    is_log = panel.is_log and any(v > 0 for c in shown.values() for v in c.values if _is_finite(v))
    curves = {name: _drawable(curve, is_log) for name, curve in shown.items()}
    notes = _notes(panel, shown, curves, is_log)
    points = [
        (step, value)
        for curve in curves.values()
        for step, value in zip(curve.steps, curve.values, strict=True)
        if not math.isnan(value)
    ]
    if not points:
        return Plot(panel.title, [], [], [], notes, True)
    steps, values = zip(*points, strict=True)
    x_axis = _Axis(*_wide(min(steps), max(steps)), LEFT, WIDTH - RIGHT, float)
    y_axis = _value_axis(values, is_log)
    y_ticks = (log_ticks if is_log else linear_ticks)(y_axis.low, y_axis.high, 5)
    return Plot(
        panel.title,
        [
            _series(style, name, curve, x_axis, y_axis, across.place_text)
            for style, (name, curve) in zip(_styles(curves), curves.items(), strict=True)
        ],
        [
            Tick(x_axis.place(t), across.tick_text(t))
            for t in across.ticks(x_axis.low, x_axis.high, 5)
        ],
        [Tick(y_axis.place(t), short(t)) for t in y_ticks],
        notes,
        False,
    )


def _drawable(curve: Curve, is_log: bool) -> Curve:
    """Returns a curve of few points; NaN stands for what cannot be drawn."""
    values = (v if _is_finite(v) and (v > 0 or not is_log) else math.nan for v in curve.values)
    return thinned(Curve(curve.steps, tuple(values)))


def _is_finite(value: float) -> bool:
    return math.isfinite(value) and abs(value) < _HUGE


def _notes(
    panel: Panel, shown: dict[str, Curve], curves: dict[str, Curve], is_log: bool
) -> list[str]:
    notes = []
    count = sum(len(curve.values) for curve in shown.values())
    missing = sum(not _is_finite(v) for curve in shown.values() for v in curve.values)
    if missing:
        notes.append(f"{missing:,} of {count:,} values are not finite.")
    low = sum(v <= 0 for curve in shown.values() for v in curve.values if _is_finite(v))
    if is_log and low:
        notes.append(f"{low:,} values are not above 0 and have no place on this scale.")
    if len(panel.curves) > len(shown):
        notes.append(f"{len(panel.curves) - len(shown):,} more curves are not drawn.")
    if any(len(curves[name].steps) < len(shown[name].steps) for name in shown):
        notes.append(f"Only lows and highs of {count:,} values are drawn.")
    return notes


def _wide(low: float, high: float) -> tuple[float, float]:
    """Returns the range of an axis, which is not empty."""
    if low == high:
        margin = abs(low) / 2 or 1.0
        return low - margin, high + margin
    return low, high


def _value_axis(values: Sequence[float], is_log: bool) -> _Axis:
    low, high = min(values), max(values)
    if is_log:
        if low == high:
            low, high = low / 2, high * 2
        factor = (high / low) ** _PADDING
        return _Axis(low / factor, high * factor, HEIGHT - BOTTOM, TOP, math.log10)
    low, high = _wide(low, high)
    margin = (high - low) * _PADDING
    return _Axis(low - margin, high + margin, HEIGHT - BOTTOM, TOP, float)


def _styles(curves: Iterable[str]) -> Iterator[str]:
    """Yields the classes of each curve. An evaluation looks the same with and without training."""
    numbers = itertools.count()
    for name in curves:
        number = 0 if name == BATCH else next(numbers)
        yield "batch" if name == BATCH else f"s{number % NUM_COLORS} d{number // NUM_COLORS}"


def _series(
    style: str,
    name: str,
    curve: Curve,
    x_axis: _Axis,
    y_axis: _Axis,
    place_text: Callable[[float], str],
) -> Series:
    """Returns a curve as a path with a gap at each NaN."""
    path, markers, is_gap, last = [], [], True, math.nan
    for step, value in zip(curve.steps, curve.values, strict=True):
        if math.isnan(value):
            is_gap = True
            continue
        x, y = x_axis.place(step), y_axis.place(value)
        path.append(f"M{x:g} {y:g}h0" if is_gap else f"L{x:g} {y:g}")  # h0: a dot if it is alone
        markers.append((x, y, f"{name}: {value:.4g} {place_text(step)}"))
        is_gap, last = False, value
    is_few = len(curve.steps) <= _FEW_POINTS
    return Series(name, style, "".join(path), markers if is_few else [], f"{last:.4g}")


MOST_POINTS = 400


def thinned(curve: Curve, most_points: int = MOST_POINTS) -> Curve:
    """Returns at most so many points of a curve, among them the first and the last.

    The points are divided into groups of neighbours. Of each group, the smallest and the largest
    value stay; a group without finite values keeps one of them, which shows as a gap.
    """
    count = len(curve.steps)
    if count <= most_points:
        return curve
    groups = most_points // 2 - 1
    kept = {0, count - 1}
    for group in range(groups):
        indices = range(count * group // groups, count * (group + 1) // groups)
        finite = [index for index in indices if math.isfinite(curve.values[index])]
        if finite:
            kept |= {min(finite, key=curve.values.__getitem__)}
            kept |= {max(finite, key=curve.values.__getitem__)}
        else:
            kept.add(indices[0])
    chosen = sorted(kept)
    return Curve(
        tuple(curve.steps[i] for i in chosen),
        tuple(curve.values[i] for i in chosen),
        tuple(curve.seconds[i] for i in chosen) if curve.seconds else (),
    )
