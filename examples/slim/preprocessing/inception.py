"""Preprocessing for Inception and MobileNet: a stretched part of the image, distorted colours.

In training, a random part with 8 % to 100 % of the area and a ratio of sides from 3:4 to 4:3 is
resized, mirrored at random, and changed in brightness, saturation, hue and contrast. In evaluation
the central part, 7/8 of height and width, is resized. Values are scaled to -1 … 1. Called through
`factory.get_preprocessing`.

References:
  Szegedy et al. (2014), "Going Deeper with Convolutions", arXiv 1409.4842, §6.
  Howard (2013), "Some Improvements on Deep Convolutional Neural Network Based Image
  Classification", arXiv 1312.5402 (colours).
"""

import tensorflow as tf

from examples.slim.preprocessing import pixels
from examples.slim.preprocessing.pixels import Tensor

AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MIDDLE = 0.875
BRIGHTNESS, HUE = 32 / 255, 0.2
SATURATION = CONTRAST = (0.5, 1.5)


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
    image = pixels.as_float(image, use_grayscale) / 255
    if is_training:
        part, mirror, *colours = pixels.seeds(seed, 6)
        image = pixels.resized(_part(image, part), height, width)
        image = tf.image.stateless_random_flip_left_right(image, mirror)
        image = tf.clip_by_value(_coloured(image, *colours), 0.0, 1.0)
    else:
        image = pixels.resized(tf.image.central_crop(image, MIDDLE), height, width)
    return image * 2 - 1


def _part(image: Tensor, seed: Tensor) -> Tensor:
    """Cuts out a part of random size, ratio and position."""
    everything = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        everything,
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=RATIO,
        area_range=AREA,
    )
    part = tf.slice(image, begin, size)
    part.set_shape([None, None, pixels.channels_of(image)])
    return part


def _coloured(
    image: Tensor, brightness: Tensor, saturation: Tensor, hue: Tensor, contrast: Tensor
) -> Tensor:
    """Distorts colours by four seeds. Gray images have no saturation and hue to distort."""
    image = tf.image.stateless_random_brightness(image, BRIGHTNESS, brightness)
    if pixels.channels_of(image) == 3:
        image = tf.image.stateless_random_saturation(image, *SATURATION, saturation)
        image = tf.image.stateless_random_hue(image, HUE, hue)
    return tf.image.stateless_random_contrast(image, *CONTRAST, contrast)
