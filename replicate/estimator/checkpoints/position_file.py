"""Position files: the position of the input, in a file beside its checkpoint.

Owns name and format of the file: a line of JSON with the numbers, then the buffers of the iterator.
If training ended without an interruption, its last checkpoint has no such file. The file is
complete or absent. `input_position.py` chooses the content, `hooks/saving.py` writes the file and
removes it.
"""

import contextlib
import dataclasses
import json
import zlib
from typing import Any

import tensorflow as tf

from replicate.estimator.checkpoints.pipeline_record import PipelineRecord
from replicate.estimator.files import write_whole

SUFFIX = ".input_position"
"""End of the file's name, after the path of the checkpoint."""

_UNFINISHED = f"{SUFFIX}.tempstate0"
_FORMAT = 1
_CHECKSUM = "crc32"
_LONGEST = 100
_MOST_ELEMENTS = 2**62


@dataclasses.dataclass(frozen=True)
class SavedPosition:
    """The position of an input.

    Attributes:
      elements: Elements that the iterator has given since its beginning.
      skipped: Number of them that the iterator skipped when it was initialised.
      seed: Seed drawn for operations without a seed, None if all have one.
      record: Record of the pipeline.
      state: The serialized iterator; empty if the elements are to be read again.
    """

    elements: int
    skipped: int
    seed: int | None
    record: PipelineRecord
    state: bytes = b""


def write_position(checkpoint: str, position: SavedPosition) -> None:
    """Writes the position of a checkpoint, in place of an older file."""
    numbers: dict[str, Any] = {
        "format": _FORMAT,
        "checkpoint": _name(checkpoint),
        "elements": position.elements,
        "skipped": position.skipped,
        "seed": position.seed,
        "state_bytes": len(position.state),
        "state_crc32": zlib.crc32(position.state),
        "pipeline": position.record.as_json(),
    }
    numbers[_CHECKSUM] = _checksum(numbers)
    content = json.dumps(numbers).encode() + b"\n" + position.state
    write_whole(checkpoint + SUFFIX, content, checkpoint + _UNFINISHED)


def read_position(checkpoint: str) -> SavedPosition | None:
    """Returns the position of a checkpoint, None if there is none.

    Raises:
      ValueError: The file cannot be understood.
    """
    try:
        with tf.io.gfile.GFile(checkpoint + SUFFIX, "rb") as file:
            line, _, state = file.read().partition(b"\n")
    except tf.errors.NotFoundError:
        return None
    except (tf.errors.FailedPreconditionError, tf.errors.UnknownError) as error:
        raise ValueError(f"Cannot read {checkpoint}{SUFFIX}: it is no file.") from error
    try:
        numbers = json.loads(line)
        _check_numbers(numbers, checkpoint)
        return _parsed(numbers, state)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"Cannot read {checkpoint}{SUFFIX}: it is damaged, or another version wrote it "
            f"({type(error).__name__}: {str(error)[:_LONGEST]})."
        ) from error


def remove_position(checkpoint: str) -> None:
    """Removes the position of a checkpoint, if there is one."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(checkpoint + SUFFIX)


def _name(checkpoint: str) -> str:
    return checkpoint.rpartition("/")[2]


def _checksum(numbers: dict[str, Any]) -> int:
    others = {name: value for name, value in numbers.items() if name != _CHECKSUM}
    return zlib.crc32(json.dumps(others, sort_keys=True).encode())


def _check_numbers(numbers: Any, checkpoint: str) -> None:
    """Raises ValueError for damaged numbers, and for those of another checkpoint.

    Files of older versions have no checksum and do not name their checkpoint.
    """
    if numbers.get(_CHECKSUM, _checksum(numbers)) != _checksum(numbers):
        raise ValueError("checksum of the numbers")
    owner = numbers.get("checkpoint", _name(checkpoint))
    if owner != _name(checkpoint):
        raise ValueError(f"it belongs to {owner}")
    if not 0 <= numbers["skipped"] <= numbers["elements"] <= _MOST_ELEMENTS:
        raise ValueError(f"{numbers['elements']} elements, {numbers['skipped']} skipped")


def _parsed(numbers: Any, state: bytes) -> SavedPosition:
    if numbers["format"] != _FORMAT:
        raise ValueError(f"format {numbers['format']}")
    if (len(state), zlib.crc32(state)) != (numbers["state_bytes"], numbers["state_crc32"]):
        raise ValueError("checksum")
    seed = numbers["seed"]
    return SavedPosition(
        int(numbers["elements"]),
        int(numbers["skipped"]),
        None if seed is None else int(seed),
        PipelineRecord.from_json(numbers["pipeline"]),
        state,
    )
