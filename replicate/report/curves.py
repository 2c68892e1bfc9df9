"""Curves: the scalars in the event files of a model directory, by run and tag.

TensorBoard reads the files. It leaves out steps that were repeated after a restart, and incomplete
events of a killed process. It is imported on first use.

Seconds of training at a step do not count the pauses between runs. They come from the times of the
events alone, so that large files take no longer.
"""

import importlib
import logging
import math
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from replicate.links import leads_out

_HEADER = struct.Struct("<Q4x")
_TIME = struct.Struct("<cd")
_TIME_TAG = b"\x09"
"""Field 1 of an event, a double: its time in seconds since 1970."""
_CHECKSUM_BYTES = 4
_LATEST = 1e11
"""The largest time that a file is believed, in the year 5138."""


class Elapsed(NamedTuple):
    """Spans in which training ran, in seconds since 1970, ascending; they do not overlap."""

    spans: tuple[tuple[float, float], ...]

    def at(self, time: float) -> float:
        """Returns the seconds of training up to a time; pauses between spans do not count.

        NaN, of a damaged file, counts as the beginning.
        """
        if math.isnan(time):
            return 0.0
        return sum(min(max(time, start), end) - start for start, end in self.spans)


def elapsed(folder: Path) -> Elapsed:
    """Returns the spans of the event files of a model directory."""
    found = (_span(path) for path in sorted(folder.glob("*tfevents*")) if path.is_file())
    return Elapsed(tuple(_merged(span for span in found if span is not None)))


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns spans in order; those that overlap become one."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _span(path: Path) -> tuple[float, float] | None:
    """Returns the first and the last time in an event file; None if it has none."""
    times: list[float] = []
    size = os.path.getsize(path)
    with path.open("rb") as file:
        while (place := file.tell()) + _HEADER.size + _TIME.size <= size:
            (length,) = _HEADER.unpack(file.read(_HEADER.size))
            following = place + _HEADER.size + length + _CHECKSUM_BYTES
            if following > size:  # Incomplete: the process was killed, or is writing.
                break
            if length >= _TIME.size:
                tag, time = _TIME.unpack(file.read(_TIME.size))
                if tag == _TIME_TAG and 0 < time < _LATEST:
                    times = [*times[:1], time]
            file.seek(following)
    return (times[0], max(times)) if times else None


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
