"""The second moment of image patches without making the patches.

Plain functions, called by the input factor of convolutions where they apply: stride 1, no
dilation, one or two spatial dimensions of static size.

The second moment consists of blocks [c, c], of an entry of the filter in row i and column j with
one in row i' and column j', summed over locations. Entries that see pixels at the same distance
from each other share nearly all of that sum. There are two ways to make use of this,
`row_products` and `spectral_products`. This module estimates which is cheaper, and puts the blocks
together. Blocks for i > i' are transposes of others.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.tensor_ops import static_size, symmetrize
from kfac.patches import row_products, spectral_products
from kfac.patches.cost import ASSUMED_EXAMPLES, Work
from kfac.patches.filter_axis import FilterAxis, entry_pairs, rows_and_columns
from kfac.patches.geometry import ConvGeometry, num_locations

_WAYS = (row_products, spectral_products)


class PatchSums(NamedTuple):
    """Sums over all patches p of all examples.

    Attributes:
      products: Σ p pᵀ [d, d].
      values: Σ p [d].
    """

    products: Tensor
    values: Tensor


def applies(images: Tensor, geometry: ConvGeometry) -> bool:
    """Whether `patch_sums` can be used on images [N, ..., c] with this filter."""
    sizes = [static_size(images, axis + 1) for axis in range(geometry.rank)]
    return (
        geometry.rank <= 2
        and max(geometry.kernel) > 1
        and set(geometry.strides) == set(geometry.dilations) == {1}
        and None not in sizes
    )


def locations(images: Tensor, geometry: ConvGeometry) -> int:
    """Returns T of images [N, ..., c] with static sizes."""
    sizes = [static_size(images, axis + 1) for axis in range(geometry.rank)]
    return int(num_locations(sizes, geometry))


def is_cheaper(images: Tensor, geometry: ConvGeometry) -> bool:
    """Whether `patch_sums` is estimated to be cheaper than patches and their product.

    Args:
      images: [N, ..., c] with static sizes.
      geometry: A filter to which `applies`.
    """
    patch = int(np.prod(geometry.kernel)) * static_size(images, -1)
    patches = (static_size(images, 0) or ASSUMED_EXAMPLES) * locations(images, geometry)
    by_patches = Work(multiplications=patches * patch**2, written=patches * patch)
    return min(_costs(images, *rows_and_columns(images, geometry))) < by_patches.cost


def patch_sums(images: Tensor, geometry: ConvGeometry) -> PatchSums:
    """Returns Σ p pᵀ and Σ p over the patches p of all examples and locations.

    Equal to what follows from `extract_patches`, in the same order of entries.

    Args:
      images: [N, ..., c], channels last, one or two static spatial dimensions.
      geometry: A filter to which `applies`.
    """
    rows, columns = rows_and_columns(images, geometry)
    if geometry.rank == 1:
        images = images[:, :, tf.newaxis]
    costs = _costs(images, rows, columns)
    way = _WAYS[costs.index(min(costs))]
    blocks = way.blocks(images, rows, columns)
    return PatchSums(_assembled(blocks, rows), _values(images, rows, columns))


def _costs(images: Tensor, rows: FilterAxis, columns: FilterAxis) -> list[float]:
    """Estimates what each of the ways costs."""
    channels, examples = static_size(images, -1), static_size(images, 0) or ASSUMED_EXAMPLES
    return [way.work(rows, columns, channels, examples).cost for way in _WAYS]


def _assembled(blocks: Tensor, rows: FilterAxis) -> Tensor:
    """Returns the second moment of the patches.

    Args:
      blocks: [pairs, c, c, kw · kw], by `entry_pairs`.
      rows: The rows.

    Returns:
      [d, d] with d = kh · kw · c, symmetric.
    """
    pairs, channels, _, squared = blocks.shape.as_list()
    width = round(squared**0.5)
    upper = tf.transpose(
        tf.reshape(blocks, [pairs, channels, channels, width, width]), [0, 3, 1, 4, 2]
    )
    upper = tf.reshape(upper, [pairs, width * channels, width * channels])
    diagonal, above = symmetrize(upper[: rows.kernel]), upper[rows.kernel :]
    both = tf.concat([diagonal, above, tf.transpose(above, [0, 2, 1])], axis=0)
    index = np.zeros([rows.kernel, rows.kernel], np.int32)
    for number, (i, other_i) in enumerate(entry_pairs(rows.kernel)):
        index[other_i, i] = number if i == other_i else pairs - rows.kernel + number
        index[i, other_i] = number
    full = tf.transpose(tf.gather(both, index), [0, 2, 1, 3])
    size = rows.kernel * width * channels
    return tf.reshape(full, [size, size])


def _values(images: Tensor, rows: FilterAxis, columns: FilterAxis) -> Tensor:
    """Returns Σ p [d] over the patches p of images [N, H, W, c]."""
    total = tf.reduce_sum(images, axis=0)
    sums = tf.tensordot(_views(rows, images.dtype), total, [[1], [0]])
    sums = tf.tensordot(_views(columns, images.dtype), sums, [[1], [1]])
    return tf.reshape(tf.transpose(sums, [1, 0, 2]), [-1])


def _views(axis: FilterAxis, dtype: tf.DType) -> Tensor:
    """Returns how often each entry of the filter sees each pixel, 0 or 1, [kernel, size]."""
    views = np.zeros([axis.kernel, axis.size])
    for entry in range(axis.kernel):
        start, stop = axis.window(entry, 0)
        views[entry, start:stop] = 1
    return tf.constant(views, dtype)
