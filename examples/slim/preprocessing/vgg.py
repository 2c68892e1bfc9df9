"""Preprocessing for VGG and residual networks: a window of a randomly scaled image.

The image keeps the ratio of its sides. In training, for windows of 224 pixels, the shorter side is
scaled to 256 … 512 pixels at random; the window has a random position and is mirrored at random. In
evaluation the shorter side is 256 pixels and the window is in the centre. For other windows all
sizes are in proportion. The mean colour of ImageNet is subtracted; values are not divided. Called
through `factory.get_preprocessing`.

Reference: Simonyan & Zisserman (2014), "Very Deep Convolutional Networks for Large-Scale Image
Recognition", arXiv 1409.1556, §2.1, §3.1 and §3.2.
"""

import numpy as np
import tensorflow as tf

from examples.slim.preprocessing import pixels
from examples.slim.preprocessing.pixels import Tensor

MEAN = (123.68, 116.779, 103.939)
"""Red, green and blue over ImageNet's training images."""
WINDOW, SHORTEST, LONGEST = 224, 256, 512


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
    channels = pixels.channels_of(image)
    window = max(height, width)
    shortest, longest = (round(window * side / WINDOW) for side in (SHORTEST, LONGEST))
    if is_training:
        scale, place, mirror = pixels.seeds(seed, 3)
        side = tf.random.stateless_uniform([], scale, shortest, longest + 1, tf.int32)
        image = tf.image.stateless_random_crop(
            _scaled(image, side), [height, width, channels], place
        )
        image = tf.image.stateless_random_flip_left_right(image, mirror)
    else:
        image = tf.image.resize_with_crop_or_pad(_scaled(image, shortest), height, width)
    return image - (MEAN if channels == 3 else np.dot(MEAN, pixels.GRAY))


def _scaled(image: Tensor, side: int | Tensor) -> Tensor:
    """Scales an image so that its shorter side has the given length."""
    sides = tf.shape(image)[:2]
    shorter = tf.reduce_min(sides)
    height, width = tf.unstack(tf.cast(tf.round(side * sides / shorter), tf.int32))
    return pixels.resized(image, height, width)
