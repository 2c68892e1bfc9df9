"""Curves: the scalars in the event files of a model directory, by run and tag.

TensorBoard reads the files. It leaves out steps that were repeated after a restart, and incomplete
events of a killed process. It is imported on first use.
"""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from replicate.links import leads_out
from replicate.report.elapsed import elapsed

TRAINING = "training"
"""Name of the run in the model directory itself; all other runs are evaluations."""

_READER = "tensorboard.backend.event_processing.event_accumulator"


class Curve(NamedTuple):
    """Values of one scalar.

    Attributes:
      steps: Global steps, ascending.
      values: One number for each step.
      seconds: Seconds of training at each step; empty if they are not known.
    """

    steps: tuple[int, ...]
    values: tuple[float, ...]
    seconds: tuple[float, ...] = ()


Runs = Mapping[str, Mapping[str, Curve]]
"""Curves by name of the run ("training", "eval", "eval_test") and tag."""


def read_curves(folder: Path) -> Runs:
    """Reads the curves of a model directory and its subfolders `eval` and `eval_<name>`.

    Returns:
      The runs that have at least one scalar, training first. A run whose folder or event file is a
      symbolic link out of the model directory is left out.

    Raises:
      ValueError: An event file is damaged so that TensorBoard cannot read past it.
    """
    reader = importlib.import_module(_READER)
    # TensorBoard would warn of several graphs in one run.
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    folders = {TRAINING: folder} | {path.name: path for path in sorted(folder.glob("eval*/"))}
    runs = {}
    clock = elapsed(folder) if not _leads_out(folder, folder) else None
    for run, run_folder in folders.items():
        if _leads_out(run_folder, folder):
            continue
        accumulator = reader.EventAccumulator(str(run_folder), size_guidance={"scalars": 0})
        events = _loaded(accumulator, run_folder)
        found = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        runs[run] = {
            tag: Curve(
                tuple(p.step for p in points),
                tuple(p.value for p in points),
                tuple(clock.at(p.wall_time) for p in points) if clock and clock.spans else (),
            )
            for tag, points in found.items()
        }
    return {run: curves for run, curves in runs.items() if curves}


def _leads_out(run_folder: Path, folder: Path) -> bool:
    """Returns True if a run's folder or event file is a link out of the model directory."""
    return any(leads_out(path, folder) for path in (run_folder, *run_folder.glob("*tfevents*")))


def _loaded(accumulator: Any, folder: Path) -> Any:
    """Reads the event files of a folder.

    Raises:
      ValueError: TensorBoard cannot read one of them.
    """
    try:
        return accumulator.Reload()
    except DecodeError as error:
        raise ValueError(
            f"cannot read the event files in {folder}: one is damaged ({error}): move it away"
        ) from error
