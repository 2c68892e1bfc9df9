"""Reader of the Python version of CIFAR-10 that does not run the program in its files.

The files are pickles. Loading a pickle runs a program that somebody else wrote. This reader lists
the instructions of that program (`pickletools.genops` runs none of them) and takes two values from
the list: the bytes of the array after the word "data", and the numbers after the word "labels". It
ignores all other instructions.
"""

import pickletools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Batch(NamedTuple):
    """Images, uint8 [count, bytes of an image]; labels, uint8 [count]."""

    images: np.ndarray
    labels: np.ndarray


def read_batch(path: str, image_bytes: int) -> Batch:
    """Reads one file, a dict with an array "data" and a list "labels".

    Raises:
      ValueError: The file cannot be read, or lacks one of the two.
    """
    try:
        images, labels = _find(Path(path).read_bytes())
    except (OSError, ValueError, IndexError) as error:
        raise ValueError(
            f"Cannot read {path}: {error}. Expected a file of CIFAR-10's Python version; the "
            "binary version, *.bin, can be used as well."
        ) from error
    if not labels or len(images) != len(labels) * image_bytes or max(labels) > 255:
        raise ValueError(
            f"Cannot read {path}: found {len(images)} bytes of images and {len(labels)} labels, "
            f"expected {image_bytes} bytes and a number below 256 for each image."
        )
    pixels = np.frombuffer(images, np.uint8).reshape(-1, image_bytes)
    return Batch(pixels, np.array(labels, np.uint8))


def _find(content: bytes) -> tuple[bytes, list[int]]:
    """Returns the bytes of the array after the word "data", and the numbers after "labels"."""
    images, labels, key, last = b"", [], "", b""
    for instruction, argument, _ in pickletools.genops(content):
        text = _as_bytes(argument)
        if text in (b"data", b"labels", b"batch_label", b"filenames"):
            key = text.decode()
        elif text is not None:
            last = text
        elif key == "data" and instruction.name == "BUILD":
            images = last  # An array is built from the values just before it, and so is its type.
        elif key == "labels" and instruction.name in ("BININT1", "BININT2", "BININT", "INT"):
            labels.append(int(argument))
    return images, labels


def _as_bytes(argument: Any) -> bytes | None:
    """Returns a string as bytes: one byte per character, as Python 2 wrote them."""
    if isinstance(argument, str):
        try:
            return argument.encode("latin-1")
        except UnicodeEncodeError:
            return None
    return bytes(argument) if isinstance(argument, bytes | bytearray) else None
