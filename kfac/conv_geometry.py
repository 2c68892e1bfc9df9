"""Where a convolution looks: its patches and its number of output locations.

Plain functions of shapes, images and the arguments of `tf.nn.conv2d`, channels last. Called by the
convolution's factor and block.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §2.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.linalg import static_size


class ConvGeometry(NamedTuple):
    """How a filter slides over an image.

    Attributes:
      kernel: (rows, columns) of the filter.
      strides: (down, right).
      padding: "SAME" or "VALID".
      dilations: (down, right), 1 for an ordinary filter.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: str
    dilations: tuple[int, int] = (1, 1)


def spatial_pair(values: Sequence[int] | None, argument: str, layer: str) -> tuple[int, int]:
    """Reduces four strides or dilations (batch, rows, columns, channels) to two.

    Args:
      values: Four positive ints, of which the outer two are 1; None means all are 1.
      argument: What they are called, for the error.
      layer: Name of the layer, for the error.

    Returns:
      The entries for rows and columns.

    Raises:
      ValueError: They are anything else.
    """
    entries = (1, 1, 1, 1) if values is None else tuple(values)
    if len(entries) != 4 or entries[0] != 1 or entries[3] != 1 or min(entries) < 1:
        raise ValueError(
            f"Cannot register convolution {layer}: {argument}={values!r}. Accepted are four "
            f"positive ints (1, rows, columns, 1), as in tf.nn.conv2d with channels last."
        )
    return entries[1], entries[2]


def extract_patches(images: Tensor, geometry: ConvGeometry) -> Tensor:
    """Returns what the filter sees at each location.

    The result is [batch · locations, rows · columns · channels]. Entries are in (row, column,
    channel) order, channel fastest, like a filter reshaped to [rows · columns · channels, outputs].

    Args:
      images: [batch, height, width, channels].
      geometry: The filter.
    """
    patches = tf.image.extract_patches(
        images,
        sizes=[1, *geometry.kernel, 1],
        strides=[1, *geometry.strides, 1],
        rates=[1, *geometry.dilations, 1],
        padding=geometry.padding,
    )
    size = geometry.kernel[0] * geometry.kernel[1] * static_size(images, -1)
    return tf.reshape(patches, [-1, size])


def num_locations(height: Scalar, width: Scalar, geometry: ConvGeometry) -> Scalar:
    """Returns T, the number of output locations of a convolution.

    ⌈H/s⌉ with SAME padding and ⌈(H − (k − 1)·r)/s⌉ with VALID, for kernel k, stride s and
    dilation r, in each direction.

    Args:
      height: Rows of the image, int or int Tensor [].
      width: Columns of the image, int or int Tensor [].
      geometry: The filter.
    """
    total: Scalar = 1
    directions = (geometry.kernel, geometry.strides, geometry.dilations)
    for size, kernel, stride, rate in zip((height, width), *directions, strict=True):
        usable = size if geometry.padding == "SAME" else size - (kernel - 1) * rate
        total = total * ((usable + stride - 1) // stride)
    return total
