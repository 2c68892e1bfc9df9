"""Preprocessing for LeNet, the same in training and evaluation.

The image is resized, and its values are scaled to -1 … 1. Called through
`factory.get_preprocessing`.
"""

from examples.slim.preprocessing import pixels
from examples.slim.preprocessing.pixels import Tensor


def preprocess(
    image: Tensor,
    height: int,
    width: int,
    seed: Tensor | None = None,
    *,
    is_training: bool = False,
    use_grayscale: bool = False,
) -> Tensor:
    """Prepares one image; for arguments and results see `factory.get_preprocessing`."""
    image = pixels.as_float(image, use_grayscale)
    return pixels.resized(image, height, width) / 127.5 - 1
