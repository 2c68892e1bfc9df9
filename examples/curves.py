"""Draws the loss and a metric of a training run against the step, from its event files.

`read` collects the scalars that TensorBoard would show: those of training from the model directory,
and those of each evaluation from its subdirectory `eval_<name>`. `draw` makes the picture of a run,
`compare` that of several. Programs import this module at their end, because it imports matplotlib
and TensorBoard.

    python -m examples.curves runs/convnet "My run"     draws runs/convnet/curves.png anew
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from examples import cli


class Curve(NamedTuple):
    """The values of one scalar: two arrays [points]."""

    steps: np.ndarray
    values: np.ndarray


Curves = Mapping[tuple[str, str], Curve]
"""(run, tag) -> Curve, with run "batch" for training or the name of an evaluation."""

# Okabe and Ito's colours, which stay apart in colour-blind eyes; the markers differ as well.
_RUNS = {
    "batch": {"color": "#999999", "linewidth": 0.8, "label": "training batch"},
    "train": {"color": "#0072B2", "marker": "o", "label": "training set"},
    "test": {"color": "#D55E00", "marker": "s", "label": "test set"},
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73")
_PIXELS_PER_INCH = 120


def read(model_dir: str) -> Curves:
    """Reads every scalar in the event files of a model directory and of its evaluations."""
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of several graphs in a run
    folders = {"batch": Path(model_dir)}
    folders |= {path.name.removeprefix("eval_"): path for path in Path(model_dir).glob("eval_*/")}
    curves = {}
    for run, folder in folders.items():
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
        for tag in events.Tags()["scalars"]:
            points = events.Scalars(tag)
            steps, values = [p.step for p in points], [p.value for p in points]
            curves[run, tag] = Curve(np.array(steps), np.array(values))
    return curves


def draw(curves: Curves, path: str, title: str, metric: str = "accuracy") -> None:
    """Draws loss (logarithmic) and a metric side by side into a PNG file of 1200 x 540 pixels."""
    figure = Figure(figsize=(10, 4.5), dpi=_PIXELS_PER_INCH, layout="constrained")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    loss, other = figure.subplots(1, 2, sharex=True)
    loss.set_yscale("log")
    _panel(loss, curves, "loss", "{:.2g}")
    _panel(other, curves, metric, "{:.3f}")
    lowest, highest = loss.get_ylim()
    loss.yaxis.set_major_formatter("{x:g}")
    loss.yaxis.set_minor_formatter("{x:g}" if highest < 10 * lowest else NullFormatter())
    figure.savefig(path)


def compare(runs: Mapping[str, Curves], path: str, title: str) -> None:
    """Draws the losses of at most three runs by name into a PNG file of 1200 x 540 pixels."""
    figure = Figure(figsize=(10, 4.5), dpi=_PIXELS_PER_INCH, layout="constrained")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    for axes, part in zip(figure.subplots(1, 2, sharex=True), ("train", "test"), strict=True):
        for (name, curves), colour in zip(runs.items(), _COLOURS, strict=False):
            axes.plot(*curves[part, "loss"], color=colour, label=name)
        axes.set_yscale("log")
        axes.legend(frameon=False, loc="best")
        _label(axes, f"loss, {_RUNS[part]['label']}")
    figure.savefig(path)


def _panel(axes: Axes, curves: Curves, tag: str, number: str) -> None:
    """Draws one tag of every run that has it, and writes the last value beside each evaluation."""
    present = {run: curves[run, tag] for run in _RUNS if (run, tag) in curves}
    ends = {run: curve.values[-1] for run, curve in present.items() if run != "batch"}
    for run, (steps, values) in present.items():
        (line,) = axes.plot(steps, values, markersize=4.5, **_RUNS[run])
        if run in ends:
            axes.annotate(
                number.format(ends[run]),
                (steps[-1], ends[run]),
                xytext=(7, 0),
                textcoords="offset points",
                va="bottom" if ends[run] == max(ends.values()) else "top",
                color=line.get_color(),
            )
    if present:
        axes.legend(frameon=False, loc="best")
    _label(axes, tag)


def _label(axes: Axes, title: str) -> None:
    """Puts the title above the left end, steps below, and a grid behind the curves."""
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(color="#E6E6E6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def main(arguments: Sequence[str]) -> None:
    """Draws the curves of a folder anew; the arguments are the folder and a title."""
    if {"--help", "-h"} & set(arguments):
        print(__doc__)
        return
    if len(arguments) != 2:
        cli.fail(
            f"takes a model directory and a title, got {len(arguments)} arguments: "
            "see --help for an example",
            cli.BAD_INPUT,
        )
    folder, title = arguments
    cli.import_tensorflow()  # TensorBoard would, and not in silence.
    found = read(folder) if Path(folder).is_dir() else {}
    if not found:
        cli.fail(f"there are no event files with curves in {folder}", cli.BAD_INPUT)
    picture = str(Path(folder) / "curves.png")
    draw(found, picture, title)
    cli.show("curves", picture)


if __name__ == "__main__":
    main(sys.argv[1:])
