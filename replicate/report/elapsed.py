"""Elapsed time: seconds of training at a moment, without the pauses between runs.

Owns the spans of time that the event files of a training run cover. Only the time of each event is
read, so that large files take no longer.
"""

import math
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

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
