"""The second moment of image patches without making the patches.

That applies to filters of stride 1 without dilation, on images with one or two spatial dimensions
of static size.

The second moment consists of blocks [c, c]: the filter's entry in row i and column j with its entry
in row i' and column j', summed over locations. Pairs of entries at the same distance from each
other share nearly all of that sum. Two modules make use of this, `row_products` and
`spectral_products`. This module estimates which one is cheaper, and puts the blocks together.
Blocks for i > i' are transposes of others.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.linalg.shared import all_sizes, shared
from kfac.linalg.symmetric_packing import pack_symmetric
from kfac.linalg.tensor_ops import (
    as_scalar,
    symmetrize,
)
from kfac.patches import row_products, spectral_products
from kfac.patches.cost import ASSUMED_EXAMPLES, CostEstimate
from kfac.patches.extraction import ConvGeometry, num_locations
from kfac.patches.filter_axis import FilterAxis, entry_pairs, rows_and_columns

_WAYS = (row_products, spectral_products)


def may_skip_patches(shape: Sequence[int | None], geometry: ConvGeometry, way: str) -> bool:
    """Returns True if `moment_without_patches` is to be used for images of a shape [N, ..., c].

    `way` is a value of `CurvatureConfig.conv_moment`: "patches" makes the patches; "shifts" avoids
    them for the filters above; "auto" avoids them if that is also estimated to be cheaper.
    """
    if way == "patches" or not applies(shape, geometry):
        return False
    return way == "shifts" or is_cheaper(shape, geometry)


def moment_without_patches(
    images: Tensor, geometry: ConvGeometry, has_bias: bool, packs: bool = False
) -> tuple[Tensor, Scalar]:
    """Returns Σ p pᵀ over the patches p of all examples and locations, and their number.

    Images are [N, ..., c], channels last, with static c. The sum is [d, d], or [d + 1, d + 1] if
    each patch gets a trailing 1; `packs` packs it as `pack_symmetric` does. The number is an int,
    or an int Tensor [].
    """
    total, values = patch_sums(images, geometry=geometry, packs=packs and not has_bias)
    shape = images.shape.as_list()
    size, places = shape[0], num_locations(shape[1:-1], geometry)
    count = tf.shape(images)[0] * places if size is None else size * places
    if has_bias:
        last = tf.concat([values, [as_scalar(count, values.dtype)]], axis=0)
        total = tf.concat([total, values[:, tf.newaxis]], axis=1)
        total = tf.concat([total, last[tf.newaxis]], axis=0)
    return pack_symmetric(total) if packs and has_bias else total, count


def applies(shape: Sequence[int | None], geometry: ConvGeometry) -> bool:
    """Returns True if `patch_sums` accepts images of a shape [N, ..., c] with this filter."""
    return (
        geometry.rank <= 2
        and max(geometry.kernel) > 1
        and set(geometry.strides) == set(geometry.dilations) == {1}
        and None not in shape[1:-1]
    )


def is_cheaper(shape: Sequence[int | None], geometry: ConvGeometry) -> bool:
    """Returns True if `patch_sums`, where it `applies`, is estimated to be cheaper than patches."""
    patch = geometry.entries * (shape[-1] or 0)
    patches = (shape[0] or ASSUMED_EXAMPLES) * num_locations(shape[1:-1], geometry)
    by_patches = CostEstimate(multiplications=patches * patch**2, written=patches * patch)
    return min(_costs(shape, *rows_and_columns(shape, geometry))) < by_patches.cost


@shared(sizes=all_sizes)
def patch_sums(
    images: Tensor, *, geometry: ConvGeometry, packs: bool = False
) -> tuple[Tensor, Tensor]:
    """Returns Σ p pᵀ [d, d] and Σ p [d] over the patches p of all examples and locations.

    Equal to the sums of the rows of `extract_patches`, in the same order of entries. Images
    [N, ..., c] have their channels last, and the filter is one to which this `applies`. `packs`
    packs Σ p pᵀ as `pack_symmetric` does.
    """
    shape = images.shape.as_list()
    rows, columns = rows_and_columns(shape, geometry)
    if geometry.rank == 1:
        images = images[:, :, tf.newaxis]
    costs = _costs(shape, rows, columns)
    way = _WAYS[costs.index(min(costs))]
    blocks = way.blocks(images, rows, columns)
    products = _assembled(blocks, rows)
    return pack_symmetric(products) if packs else products, _values(images, rows, columns)


def _costs(shape: Sequence[int | None], rows: FilterAxis, columns: FilterAxis) -> list[float]:
    """Returns the estimated cost of each of the two ways, for images of a shape [N, ..., c]."""
    channels, examples = shape[-1] or 0, shape[0] or ASSUMED_EXAMPLES
    return [way.estimate_cost(rows, columns, channels, examples).cost for way in _WAYS]


def _assembled(blocks: Tensor, rows: FilterAxis) -> Tensor:
    """Returns the second moment of the patches [d, d] with d = kh · kw · c, symmetric.

    The blocks are [pairs, c, c, kw · kw], by `entry_pairs`.
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
    """Returns [kernel, size], 1 if an entry of the filter sees a pixel and 0 if not."""
    views = np.zeros([axis.kernel, axis.size])
    for entry in range(axis.kernel):
        start, stop = axis.window(entry, 0)
        views[entry, start:stop] = 1
    return tf.constant(views, dtype)
