"""Patches of a convolution: where they lie, how many there are, and their extraction.

Plain functions of shapes, images and the arguments of `tf.nn.convolution`, in one to three spatial
dimensions. Called by the convolutions' factors, blocks and registration.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §2.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor

DATA_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
"""Channels last, and channels first, by the number of spatial dimensions."""


class ConvGeometry(NamedTuple):
    """The size and the steps of a filter over an image; one entry per spatial dimension.

    Attributes:
      kernel: Size of the filter.
      strides: Steps between two locations.
      padding: "SAME" or "VALID".
      dilations: Steps between two entries of the filter, 1 for an ordinary one.
      channels_first: True if tensors are [batch, channels, ...], False if [batch, ..., channels].
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str
    dilations: tuple[int, ...] = (1, 1)
    channels_first: bool = False

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.kernel)

    @property
    def image_axes(self) -> tuple[int, int]:
        """Number of axes of a tensor, and its axis of channels, counted from the end."""
        return self.rank + 2, -1 - self.rank if self.channels_first else -1

    @property
    def entries(self) -> int:
        """Number of entries of the filter, per pair of channels."""
        return math.prod(self.kernel)


def spatial_entries(
    values: Sequence[int] | None, argument: str, layer: str, rank: int, channels_first: bool = False
) -> tuple[int, ...]:
    """Reduces strides or dilations with entries for batch and channels to the spatial ones.

    The values are rank + 2 positive ints, of which those for batch and channels are 1; None means
    all are 1. The entry for channels is the second or the last. The error names argument and layer.

    Raises:
      ValueError: The values are anything else.
    """
    entries = (1,) * (rank + 2) if values is None else tuple(values)
    first = 2 if channels_first else 1
    spatial = entries[first : first + rank]
    others = entries[:first] + entries[first + rank :]
    if len(entries) != rank + 2 or set(others) != {1} or min(entries) < 1:
        raise ValueError(
            f"Cannot register convolution {layer}: {argument}={values!r}. Accepted are {rank + 2} "
            f"positive ints, 1 for batch and channels, as in tf.nn.convolution's data format "
            f"with channels {'first' if channels_first else 'last'}."
        )
    return spatial


def spatial_sizes(images: Tensor, geometry: ConvGeometry) -> list[Scalar]:
    """Returns the size of images in each spatial dimension: an int, or a Tensor if not static."""
    first = 2 if geometry.channels_first else 1
    static = images.shape.as_list()[first : first + geometry.rank]
    if None not in static:
        return static
    dynamic = tf.unstack(tf.shape(images)[first : first + geometry.rank])
    return [known or size for known, size in zip(static, dynamic, strict=True)]


def extent(kernel: int, dilation: int) -> int:
    """Returns the number of pixels that a dilated filter spans: (k − 1)·r + 1."""
    return (kernel - 1) * dilation + 1


def output_size(size: Scalar, dimension: int, geometry: ConvGeometry) -> Scalar:
    """Returns the number of locations along one dimension of an image of that size.

    ⌈H/s⌉ with SAME padding and ⌈(H − (k − 1)·r)/s⌉ with VALID, for kernel k, stride s and
    dilation r.
    """
    stride = geometry.strides[dimension]
    if geometry.padding == "VALID":
        size = size - extent(geometry.kernel[dimension], geometry.dilations[dimension]) + 1
    return (size + stride - 1) // stride


def num_locations(sizes: Sequence[Scalar], geometry: ConvGeometry) -> Scalar:
    """Returns T, the number of output locations, for images of these spatial sizes."""
    total: Scalar = 1
    for dimension, size in enumerate(sizes):
        total = total * output_size(size, dimension, geometry)
    return total


def padding_before_and_after(
    size: Scalar, dimension: int, geometry: ConvGeometry
) -> tuple[Scalar, Scalar]:
    """Returns the numbers of zeros before and after a dimension of that size."""
    if geometry.padding == "VALID":
        return 0, 0
    span = (output_size(size, dimension, geometry) - 1) * geometry.strides[dimension]
    missing = span + extent(geometry.kernel[dimension], geometry.dilations[dimension]) - size
    total = max(missing, 0) if isinstance(missing, int) else tf.maximum(missing, 0)
    return total // 2, total - total // 2


def extract_patches(images: Tensor, geometry: ConvGeometry) -> Tensor:
    """Returns the patch that the filter sees at each location.

    Images are [batch, ..., channels], channels last whatever the geometry says. The result is
    [batch, locations..., entries · channels]. Its last axis is in the order of the filter's axes,
    channel fastest, like a filter reshaped to [entries · channels, outputs].
    """
    if max(geometry.kernel) == max(geometry.strides) == 1:
        return images
    if geometry.rank == 2 and max(geometry.strides) > 1:
        return _extract_with_strides(images, geometry)
    last = geometry._replace(channels_first=False)
    sizes = spatial_sizes(images, last)
    dimensions = range(geometry.rank)
    padding = [padding_before_and_after(sizes[d], d, last) for d in dimensions]
    is_padded = any(zeros != (0, 0) for zeros in padding)
    padded = tf.pad(images, [[0, 0], *padding, [0, 0]]) if is_padded else images
    spans = [(output_size(sizes[d], d, last) - 1) * geometry.strides[d] + 1 for d in dimensions]
    everything = slice(None)
    pieces = []
    for offsets in itertools.product(*map(range, geometry.kernel)):
        starts = [offsets[d] * geometry.dilations[d] for d in dimensions]
        window = [slice(starts[d], starts[d] + spans[d], geometry.strides[d]) for d in dimensions]
        pieces.append(padded[(everything, *window, everything)])
    return tf.concat(pieces, axis=-1)


def _extract_with_strides(images: Tensor, geometry: ConvGeometry) -> Tensor:
    # Slices with steps are slower than this op: on a CPU 2 to 6 times, for filters of 3 and 7 rows.
    sizes, strides, rates = (
        [1, *values, 1] for values in (geometry.kernel, geometry.strides, geometry.dilations)
    )
    return tf.raw_ops.ExtractImagePatches(
        images=images, ksizes=sizes, strides=strides, rates=rates, padding=geometry.padding
    )
