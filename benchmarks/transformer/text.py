"""The text: the Python sources of the standard library, as numbers of characters.

It is on any machine, in alphabetical order of the files. Each tenth file is held out.
"""

import pathlib
import sysconfig
from typing import NamedTuple

import numpy as np

CHARACTERS = 128
"""Number of different characters: those of ASCII; others become the last one."""
_HELD_OUT = 10


class Text(NamedTuple):
    """Characters of the files to train on, and of those that are held out; uint8 [n] each."""

    train: np.ndarray
    held_out: np.ndarray

    def held_out_windows(self, count: int, length: int) -> np.ndarray:
        """Returns as many windows [count, length + 1] at even distances."""
        return _windows(self.held_out, np.linspace(0, 1, count, endpoint=False), length)

    def windows(self, count: int, length: int, random: np.random.Generator) -> np.ndarray:
        """Draws as many windows [count, length + 1] to train on."""
        return _windows(self.train, random.random(count), length)


def load(folder: str | None = None) -> Text:
    """Reads all files `*.py` below a folder; None means the standard library without its tests."""
    root = pathlib.Path(folder or sysconfig.get_paths()["stdlib"])
    left_out = {"test", "tests", "idle_test", "site-packages", "dist-packages"}
    paths = sorted(p for p in root.rglob("*.py") if left_out.isdisjoint(p.parts[len(root.parts) :]))
    parts: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for number, path in enumerate(paths):
        characters = np.frombuffer(path.read_bytes(), np.uint8)
        parts[number % _HELD_OUT == 0].append(np.minimum(characters, CHARACTERS - 1))
    return Text(*(np.concatenate(files) for files in parts))


def _windows(text: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    first = (starts * (len(text) - length - 1)).astype(np.int64)
    return text[first[:, np.newaxis] + np.arange(length + 1)].astype(np.int32)
