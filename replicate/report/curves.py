"""Curves: the scalars in the event files of a model directory, by run and tag.

The reading is TensorBoard's own, which leaves out steps that were made again after a restart, and
what a killed process left incomplete. It is imported when it is first needed.
"""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TRAINING = "training"
"""The run whose events are in the model directory itself; others are those of evaluations."""

_READER = "tensorboard.backend.event_processing.event_accumulator"


class Curve(NamedTuple):
    """The values of one scalar.

    Attributes:
      steps: Global steps, ascending.
      values: As many numbers.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]


Runs = Mapping[str, Mapping[str, Curve]]
"""Name of a run ("training", "eval", "eval_test") → tag → its curve."""


def read(folder: Path) -> Runs:
    """Reads a model directory.

    Args:
      folder: The directory; evaluations are in `eval` and `eval_<name>` below it.

    Returns:
      The runs that have any scalar, training first.
    """
    reader = importlib.import_module(_READER)
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # It warns of several graphs in a run.
    places = {TRAINING: folder} | {path.name: path for path in sorted(folder.glob("eval*/"))}
    runs = {}
    for run, place in places.items():
        events = reader.EventAccumulator(str(place), size_guidance={"scalars": 0}).Reload()
        found = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        runs[run] = {
            tag: Curve(tuple(p.step for p in points), tuple(p.value for p in points))
            for tag, points in found.items()
        }
    return {run: curves for run, curves in runs.items() if curves}
