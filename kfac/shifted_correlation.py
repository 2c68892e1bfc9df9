"""The second moment of image patches without making the patches.

Plain functions, called by the input factor of convolutions where they apply: stride 1, no
dilation, one or two spatial dimensions of static size.

Two entries of a filter, i and i' rows from its top, see rows u = t + i − p and u + Δ, with
Δ = i' − i, at output row t ∈ [0, H') and p rows of padding. Let q(u) be row u of the image, cut
into patches along the columns only: [N · W', kw · c]. Then the block of the patches' second moment
for these two rows of the filter is

    M[i, i'] = Σ_{u ∈ U(i, Δ)} G_Δ(u),    G_Δ(u) = q(u)ᵀ q(u + Δ),
    U(i, Δ) = [max(0, i − p), min(H − Δ, H' + i − p)).

G_Δ is computed once for each Δ = 0, …, kh − 1 and row u: what differs between the entries of the
filter is only where the sum over u starts and ends, which is exact at the image's border; rows of
padding contribute nothing. M[i', i] is the transpose. So kh (kw · c)² instead of (kh · kw · c)²
multiplications are made for each location, and kw · c instead of kh · kw · c numbers are copied.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

from typing import NamedTuple

import tensorflow as tf

from kfac._types import Tensor
from kfac.conv_geometry import (
    ConvGeometry,
    extract_patches,
    num_locations,
    output_size,
    padding_before_and_after,
)
from kfac.linalg import static_size, symmetrize

COPY_COST = 32.0
"""What it costs to make one number of a patch, in multiplications; measured on CPUs."""

ASSUMED_EXAMPLES = 64
"""Batch size for the estimate where it is not static."""


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
        and geometry.kernel[0] > 1
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
    flat, rows = _as_two_dimensional(geometry), static_size(images, 1)
    height = output_size(rows, 0, flat)
    width = locations(images, geometry) // max(height, 1)
    line = flat.kernel[1] * static_size(images, -1)
    patch = flat.kernel[0] * line
    pairs_of_rows = sum(max(rows - shift, 0) for shift in range(flat.kernel[0]))
    examples = static_size(images, 0) or ASSUMED_EXAMPLES
    # What is multiplied for each pair of rows is written once for the whole batch.
    by_patches = examples * height * width * patch * (patch + COPY_COST)
    products = pairs_of_rows * line**2 * (examples * width + COPY_COST)
    by_shifts = products + examples * width * line * rows * COPY_COST
    return by_shifts < by_patches


def patch_sums(images: Tensor, geometry: ConvGeometry) -> PatchSums:
    """Returns Σ p pᵀ and Σ p over the patches p of all examples and locations.

    Equal to what follows from `extract_patches`, in the same order of entries.

    Args:
      images: [N, ..., c], channels last, one or two static spatial dimensions.
      geometry: A filter to which `applies`.
    """
    if geometry.rank == 1:
        images = images[:, :, tf.newaxis]
    geometry = _as_two_dimensional(geometry)
    height, kernel = static_size(images, 1), geometry.kernel[0]
    before, _ = padding_before_and_after(height, 0, geometry)
    out = output_size(height, 0, geometry)
    lines = _lines(images, geometry)

    def window(first: int, shift: int) -> slice:
        start = max(0, first - before)
        return slice(start, max(start, min(height - shift, out + first - before)))

    blocks: dict[tuple[int, int], Tensor] = {}
    for shift in range(kernel):
        correlation = tf.matmul(lines[: max(height - shift, 0)], lines[shift:], transpose_a=True)
        for first in range(kernel - shift):
            block = tf.reduce_sum(correlation[window(first, shift)], axis=0)
            blocks[first + shift, first] = tf.transpose(block)
            blocks[first, first + shift] = block
    rows = [tf.concat([blocks[i, j] for j in range(kernel)], axis=1) for i in range(kernel)]
    line_sums = tf.reduce_sum(lines, axis=1)
    values = [tf.reduce_sum(line_sums[window(i, 0)], axis=0) for i in range(kernel)]
    return PatchSums(symmetrize(tf.concat(rows, axis=0)), tf.concat(values, axis=0))


def _as_two_dimensional(geometry: ConvGeometry) -> ConvGeometry:
    """Returns the filter of a one-dimensional convolution as one that is one column wide."""
    if geometry.rank == 2:
        return geometry
    return ConvGeometry((geometry.kernel[0], 1), (1, 1), geometry.padding)


def _lines(images: Tensor, geometry: ConvGeometry) -> Tensor:
    """Returns q [height, N · W', kw · c]: each row cut into patches along the columns."""
    by_row = tf.transpose(images, [1, 0, 2, 3])
    along_columns = ConvGeometry((1, geometry.kernel[1]), (1, 1), geometry.padding)
    patches = extract_patches(by_row, along_columns)
    shape = tf.shape(patches)
    size = geometry.kernel[1] * static_size(images, -1)
    flat = tf.reshape(patches, [shape[0], shape[1] * shape[2], size])
    return tf.ensure_shape(flat, [static_size(images, 1), None, size])
