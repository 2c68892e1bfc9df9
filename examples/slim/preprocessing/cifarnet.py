"""Preprocessing for CifarNet: small shifts, mirror images, brightness and contrast.

Shifts and mirror images are those of He et al.: images of 32x32 get four more pixels on each side,
and a random window of 32x32 is cut out. At the end each image is scaled to mean 0 and variance 1,
in training and in evaluation. Called through `factory.get_preprocessing`.

Reference: He, Zhang, Ren & Sun (2015), "Deep Residual Learning for Image Recognition", arXiv
1512.03385, §4.2.
"""

import tensorflow as tf

from examples.slim.preprocessing import pixels
from examples.slim.preprocessing.pixels import Tensor

BRIGHTNESS = 63
CONTRAST = (0.2, 1.8)


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
    image = pixels.resized(pixels.as_float(image, use_grayscale), height, width)
    if is_training:
        image = _varied(image, height, width, seed)
    return tf.image.per_image_standardization(image)


def _varied(image: Tensor, height: int, width: int, seed: Tensor | None) -> Tensor:
    window, mirror, brightness, contrast = pixels.seeds(seed, 4)
    shifts = [(height // 8, height // 8), (width // 8, width // 8), (0, 0)]
    image = tf.image.stateless_random_crop(
        tf.pad(image, shifts), [height, width, pixels.channels_of(image)], window
    )
    image = tf.image.stateless_random_flip_left_right(image, mirror)
    image = tf.image.stateless_random_brightness(image, BRIGHTNESS, brightness)
    return tf.image.stateless_random_contrast(image, *CONTRAST, contrast)
