"""The second moment of image patches without making the patches.

Plain functions, called by the input factor of convolutions where they apply: stride 1, no
dilation, one or two spatial dimensions of static size.

Let x(u) be row u of an image, all its columns and channels in one vector [W · c]. Two entries of a
filter in its rows i and i' see rows u = t + i − p and u + Δ, with Δ = i' − i, at output row
t ∈ [0, H') with p rows of padding. What the patches' second moment has for these two rows of the
filter follows from

    R(i, Δ) = Σ_{u ∈ U(i, Δ)} x(u)ᵀ x(u + Δ),    U(i, Δ) = [max(0, i − p), min(H − Δ, H' + i − p)),

summed over the examples, which is exact at the image's border since rows of padding contribute
nothing. The windows U of one Δ differ only near the border, so they are cut where any of them
begins or ends, each piece is one product of two matrices, and a window is a sum of pieces. Along
the columns the same holds for the entries of R: the block of filter columns j and j' is the sum
of the [c, c] blocks of R at columns (t + j − p, t + j' − p) for t ∈ [0, W'). Blocks for Δ < 0 are
transposes.

Where images are wide, most of R would be columns too far apart to meet in a filter. Then the
columns are cut into tiles, each multiplied by its neighbourhood only.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.conv_geometry import (
    ConvGeometry,
    num_locations,
    output_size,
    padding_before_and_after,
)
from kfac.linalg import static_size, symmetrize

COPY_COST = 32.0
"""What it costs to write one number, in multiplications; measured on CPUs."""

PRODUCT_COST = 1e6
"""What it costs to start one more product of two matrices, in multiplications."""

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


class _Axis(NamedTuple):
    """How the filter slides along one dimension of the image.

    Attributes:
      size: Of the image.
      kernel: Of the filter.
      before: Zeros before the image.
      out: Number of locations.
    """

    size: int
    kernel: int
    before: int
    out: int

    def seen(self, entry: int) -> np.ndarray:
        """Returns which pixels an entry of the filter sees, in order of the locations."""
        return np.arange(self.out) + entry - self.before

    def window(self, entry: int, shift: int) -> tuple[int, int]:
        """Returns the pixels, start and end, that an entry sees while `shift` on is no padding."""
        start = max(0, entry - self.before)
        return start, max(start, min(self.size - shift, self.out + entry - self.before))


class _Tile(NamedTuple):
    """Neighbouring columns, and those that are in one filter with any of them.

    Attributes:
      start: First column.
      stop: End of the columns.
      left: First column of the neighbourhood.
      right: End of the neighbourhood.
    """

    start: int
    stop: int
    left: int
    right: int

    @property
    def pairs(self) -> int:
        """How many pairs of columns are multiplied."""
        return (self.stop - self.start) * (self.right - self.left)


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
    channels = static_size(images, -1)
    patch = int(np.prod(geometry.kernel)) * channels
    examples = static_size(images, 0) or ASSUMED_EXAMPLES
    by_patches = examples * locations(images, geometry) * patch * (patch + COPY_COST)
    rows, columns = _axes(images, geometry)
    return _cost(rows, _tiles(rows, columns, channels, examples), channels, examples) < by_patches


def patch_sums(images: Tensor, geometry: ConvGeometry) -> PatchSums:
    """Returns Σ p pᵀ and Σ p over the patches p of all examples and locations.

    Equal to what follows from `extract_patches`, in the same order of entries.

    Args:
      images: [N, ..., c], channels last, one or two static spatial dimensions.
      geometry: A filter to which `applies`.
    """
    rows, columns = _axes(images, geometry)
    if geometry.rank == 1:
        images = images[:, :, tf.newaxis]
    channels = static_size(images, -1)
    by_row = tf.transpose(images, [1, 0, 2, 3])
    examples = static_size(images, 0) or ASSUMED_EXAMPLES
    tiles = _tiles(rows, columns, channels, examples)
    blocks = tf.add_n([_blocks(by_row, rows, columns, tile) for tile in tiles])
    return PatchSums(_assembled(blocks, rows), _values(by_row, rows, columns))


def _axes(images: Tensor, geometry: ConvGeometry) -> tuple[_Axis, _Axis]:
    """Returns rows and columns; a one-dimensional image has one column."""
    axes = []
    for dimension in range(geometry.rank):
        size = static_size(images, dimension + 1)
        before, _ = padding_before_and_after(size, dimension, geometry)
        out = max(output_size(size, dimension, geometry), 0)
        axes.append(_Axis(size, geometry.kernel[dimension], before, out))
    rows, columns = [*axes, _Axis(1, 1, 0, 1)][:2]
    return rows, columns


def _cost(rows: _Axis, tiles: list[_Tile], channels: int, examples: int) -> float:
    """Estimates the work of `patch_sums`, in multiplications."""
    row_pairs = sum(max(rows.size - shift, 0) for shift in range(rows.kernel))
    pieces = rows.kernel * (rows.kernel + 1)  # at most: two edges for each window
    column_pairs = sum(tile.pairs for tile in tiles)
    products = column_pairs * channels**2 * (examples * row_pairs + pieces * COPY_COST)
    products += len(tiles) * pieces * PRODUCT_COST
    copied = sum(tile.stop - tile.start + tile.right - tile.left for tile in tiles)
    return products + examples * rows.size * copied * channels * COPY_COST


def _tiles(rows: _Axis, columns: _Axis, channels: int, examples: int) -> list[_Tile]:
    """Returns the cheapest way to cut the columns."""
    reach = columns.kernel - 1

    def cut(width: int) -> list[_Tile]:
        edges = [(s, min(s + width, columns.size)) for s in range(0, columns.size, width)]
        return [_Tile(s, e, max(0, s - reach), min(columns.size, e + reach)) for s, e in edges]

    ways = [cut(width) for width in range(columns.size, 0, -1)]
    return min(ways, key=lambda tiles: _cost(rows, tiles, channels, examples))


def _blocks(by_row: Tensor, rows: _Axis, columns: _Axis, tile: _Tile) -> Tensor:
    """Returns what a tile adds to the blocks of all pairs of filter rows.

    Args:
      by_row: Images [H, N, W, c].
      rows: Their rows.
      columns: Their columns.
      tile: Some of the columns.

    Returns:
      [pairs, c, c, kw · kw], in the order of `_row_pairs`.
    """
    channels = static_size(by_row, -1)
    ours = _flat(by_row[:, :, tile.start : tile.stop])
    others = _flat(by_row[:, :, tile.left : tile.right])
    sums = [
        window
        for shift in range(rows.kernel)
        for window in _window_products(ours, others, rows, shift)
    ]
    shape = [-1, tile.stop - tile.start, channels, tile.right - tile.left, channels]
    by_column = tf.transpose(tf.reshape(tf.stack(sums), shape), [0, 2, 4, 1, 3])
    flat = tf.reshape(by_column, [-1, tile.pairs])
    meets = tf.constant(_meetings(columns, tile), by_row.dtype)
    return tf.reshape(tf.matmul(flat, meets), [len(sums), channels, channels, -1])


def _flat(by_row: Tensor) -> Tensor:
    """Returns [H, N, w, c] as [H, N, w · c]."""
    height, _, width, channels = by_row.shape
    flat = tf.reshape(by_row, [height, tf.shape(by_row)[1], width * channels])
    return tf.ensure_shape(flat, [height, by_row.shape[1], width * channels])


def _window_products(ours: Tensor, others: Tensor, rows: _Axis, shift: int) -> list[Tensor]:
    """Returns R(i, shift) of the filter's rows i = 0, …, kh − 1 − shift.

    Args:
      ours: [H, N, a], the left operand.
      others: [H, N, b], the right one.
      rows: The rows.
      shift: Δ ≥ 0.

    Returns:
      kh − shift matrices [a, b].
    """
    windows = [rows.window(entry, shift) for entry in range(rows.kernel - shift)]
    cuts = sorted({edge for start, stop in windows if start < stop for edge in (start, stop)})
    pieces = {
        start: tf.matmul(
            _joined(ours[start:stop]),
            _joined(others[start + shift : stop + shift]),
            transpose_a=True,
        )
        for start, stop in itertools.pairwise(cuts)
    }
    nothing = tf.zeros([ours.shape[-1], others.shape[-1]], ours.dtype)
    return [
        tf.add_n([piece for at, piece in pieces.items() if start <= at < stop] or [nothing])
        for start, stop in windows
    ]


def _joined(lines: Tensor) -> Tensor:
    """Returns [rows, N, a] as [rows · N, a]."""
    return tf.reshape(lines, [-1, lines.shape[-1]])


def _meetings(columns: _Axis, tile: _Tile) -> np.ndarray:
    """Returns which columns are seen together by which two columns of the filter.

    Entry [v, v', j, j'], flattened to [pairs of the tile, kw · kw], is 1 if at some location the
    filter's column j is at column v of the tile and its column j' at column v' of the
    neighbourhood.
    """
    widths = tile.stop - tile.start, tile.right - tile.left
    meets = np.zeros([*widths, columns.kernel, columns.kernel])
    for j, other_j in np.ndindex(columns.kernel, columns.kernel):
        ours, others = columns.seen(j), columns.seen(other_j)
        inside = (ours >= tile.start) & (ours < tile.stop)
        inside &= (others >= tile.left) & (others < tile.right)
        meets[ours[inside] - tile.start, others[inside] - tile.left, j, other_j] = 1
    return meets.reshape(tile.pairs, -1)


def _row_pairs(kernel: int) -> list[tuple[int, int]]:
    """Returns the pairs (i, i') of filter rows with i ≤ i', by their distance."""
    return [(i, i + shift) for shift in range(kernel) for i in range(kernel - shift)]


def _assembled(blocks: Tensor, rows: _Axis) -> Tensor:
    """Returns the second moment of the patches.

    Args:
      blocks: [pairs, c, c, kw · kw].
      rows: The rows.

    Returns:
      [d, d] with d = kh · kw · c, symmetric.
    """
    pairs, channels, _, squared = blocks.shape
    width = round(squared**0.5)
    upper = tf.transpose(
        tf.reshape(blocks, [pairs, channels, channels, width, width]), [0, 3, 1, 4, 2]
    )
    upper = tf.reshape(upper, [pairs, width * channels, width * channels])
    both = tf.concat([upper, tf.transpose(upper, [0, 2, 1])], axis=0)
    index = np.zeros([rows.kernel, rows.kernel], np.int32)
    for number, (i, other_i) in enumerate(_row_pairs(rows.kernel)):
        index[other_i, i] = pairs + number
        index[i, other_i] = number
    full = tf.transpose(tf.gather(both, index), [0, 2, 1, 3])
    size = rows.kernel * width * channels
    return symmetrize(tf.reshape(full, [size, size]))


def _values(by_row: Tensor, rows: _Axis, columns: _Axis) -> Tensor:
    """Returns Σ p [d] over the patches p of images [H, N, W, c]."""
    total = tf.reduce_sum(by_row, axis=1)
    sums = tf.tensordot(_views(rows, by_row.dtype), total, [[1], [0]])
    sums = tf.tensordot(_views(columns, by_row.dtype), sums, [[1], [1]])
    return tf.reshape(tf.transpose(sums, [1, 0, 2]), [-1])


def _views(axis: _Axis, dtype: tf.DType) -> Tensor:
    """Returns how often each entry of the filter sees each pixel, 0 or 1, [kernel, size]."""
    views = np.zeros([axis.kernel, axis.size])
    for entry in range(axis.kernel):
        start, stop = axis.window(entry, 0)
        views[entry, start:stop] = 1
    return tf.constant(views, dtype)
