"""What the rivals' programs train: shapes of the models, and the digits of a race, in NumPy arrays.

Weights are in the order of the layers, each layer's weights before its bias. The programs of this
folder use it in the environments of the rivals, where there is NumPy and a rival and no module of
this project.
"""

import itertools
from typing import NamedTuple

import numpy as np

INVERT_EVERY = 10
"""Steps between two computations of inverses, where steps are timed."""

ENCODER = (784, 1000, 500, 250, 30)
UNITS = (*ENCODER, *ENCODER[-2::-1])
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "convnet": [(5, 5, 1, 16), (5, 5, 16, 16), (7 * 7 * 16, 10)],
    "autoencoder": list(itertools.pairwise(UNITS)),
}
"""Of the weights of the models whose steps are timed, on images of 28×28."""


class Digits(NamedTuple):
    """What a race is run on.

    Attributes:
      images: Intensities in [0, 1], [examples, height, width, 1].
      labels: Digits, [examples].
      start: Weights and bias of each layer, one after the other.
    """

    images: np.ndarray
    labels: np.ndarray
    start: list[np.ndarray]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the weights of each layer."""
        return [weights.shape for weights in self.start[::2]]


def load(path: str) -> Digits:
    """Loads what `benchmarks.time_to_loss.loss_race` wrote for a problem and a seed."""
    with np.load(path) as arrays:
        count = len(arrays.files) - 2
        start = [arrays[f"start_{index}"] for index in range(count)]
        return Digits(arrays["images"], arrays["labels"], start)
