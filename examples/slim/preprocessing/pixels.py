"""Channels, sizes and seeds, shared by all kinds of preprocessing.

An image is [height, width, channels] with 1 or 3 channels; its values go from 0 to 255. Everything
is computed in float32 and goes inside `tf.data.Dataset.map`. Random choices are functions of a
seed that is handed in, so that a pipeline that goes on where it stopped makes those that it would
have made.
"""

from typing import Any, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any
GRAY = (0.299, 0.587, 0.114)
"""What red, green and blue count in a shade of gray; ITU-R BT.601."""


def as_float(image: Tensor, use_grayscale: bool) -> Tensor:
    """Returns an image as float32.

    Args:
      image: [height, width, channels], of any type of numbers.
      use_grayscale: True: convert three channels to one.

    Raises:
      ValueError: The image has no 1 or 3 channels, as far as is known before it is there.
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
    """Makes several seeds of one.

    Args:
      seed: Whole numbers [2], others for each image.
      count: Number of seeds.

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
    """Enlarges or reduces an image; its sides may change their ratio.

    Bilinear, and when pixels get fewer each is a mean of those it stands for.

    Args:
      image: [any height, any width, channels].
      height: In pixels.
      width: In pixels.
    """
    return tf.image.resize(image, [height, width], antialias=True)
