"""Shapes of the benchmarks' models, and the data and initial weights of a race, as NumPy arrays.

Imports NumPy only, because the programs of this folder run in the environments of the rivals.
"""

import itertools
from typing import NamedTuple

import numpy as np

INVERT_EVERY = 10
"""Steps between two computations of inverses in the step benchmark."""

ENCODER = (784, 1000, 500, 250, 30)
UNITS = (*ENCODER, *ENCODER[-2::-1])
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "convnet": [(5, 5, 1, 16), (5, 5, 16, 16), (7 * 7 * 16, 10)],
    "autoencoder": list(itertools.pairwise(UNITS)),
}
"""Shapes of the weights of the models with timed steps, for 28×28 images."""


class Digits(NamedTuple):
    """Data and initial weights of a race.

    Attributes:
      images: Intensities in [0, 1], [examples, height, width, 1].
      labels: Digits, [examples].
      start: Initial [weights, bias, weights, bias, ...], layer by layer.
      rows: Examples in the batch of each step, [steps, batch].
    """

    images: np.ndarray
    labels: np.ndarray
    start: list[np.ndarray]
    rows: np.ndarray

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the weights of each layer."""
        return [weights.shape for weights in self.start[::2]]


def load(path: str) -> Digits:
    """Loads the file that `benchmarks.time_to_loss.loss_race` wrote for a problem and a seed."""
    with np.load(path) as arrays:
        count = len(arrays.files) - 3
        start = [arrays[f"start_{index}"] for index in range(count)]
        return Digits(arrays["images"], arrays["labels"], start, arrays["rows"])
