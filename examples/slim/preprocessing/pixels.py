"""Channels, sizes and seeds, for all kinds of preprocessing.

An image is [height, width, channels] with 1 or 3 channels and values from 0 to 255. All functions
compute in float32 and work in `tf.data.Dataset.map`. Random choices depend only on a seed that is
an argument, so that a resumed pipeline makes the same choices as one that was not interrupted.
"""

from typing import Any, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any
GRAY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a shade of gray; ITU-R BT.601."""


def as_float(image: Tensor, use_grayscale: bool) -> Tensor:
    """Returns an image as float32.

    Raises:
      ValueError: The image is not [height, width, channels] with 1 or 3 static channels.
    """
    if image.shape.rank != 3 or channels_of(image) not in {1, 3}:
        raise ValueError(
            f"Cannot preprocess an image of shape {image.shape}: it must be [height, width, "
            "channels] with 1 or 3 channels. Decode it with channels=1 or channels=3, or call "
            "set_shape."
        )
    image = tf.cast(image, tf.float32)
    if use_grayscale and channels_of(image) == 3:
        return tf.tensordot(image, tf.constant(GRAY, shape=[3, 1]), axes=1)
    return image


def channels_of(image: Tensor) -> int:
    """Returns the static number of channels, also where `disable_v2_behavior` was called."""
    return image.shape.as_list()[-1]


def seeds(seed: Tensor | None, count: int) -> list[Tensor]:
    """Returns several seeds made from one.

    Raises:
      ValueError: There is no seed.
    """
    if seed is None:
        raise ValueError(
            "Cannot preprocess an image for training without a seed: pass seed, two whole numbers "
            "that differ from image to image, such as a seed of the run and the image's place in "
            "tf.data.Dataset.enumerate."
        )
    return [tf.random.experimental.stateless_fold_in(seed, number) for number in range(count)]


def resized(image: Tensor, height: int | Tensor, width: int | Tensor) -> Tensor:
    """Resizes an image [any height, any width, channels]; the ratio of its sides may change.

    Uses bilinear interpolation. A reduced image has means of the pixels that it replaces.
    """
    return tf.image.resize(image, [height, width], antialias=True)
