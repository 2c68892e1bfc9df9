"""Second moments of patches from products of whole image rows.

The faster way for few channels to compute the blocks that `kfac.patches.second_moment` needs.

Let x(u) be row u of an image, all its columns and channels in one vector [W · c]. Two entries of a
filter in its rows i and i' see rows u = t + i − p and u + Δ, with Δ = i' − i, at output row
t ∈ [0, H') with p rows of padding. The part of the patches' second moment that belongs to these
two rows of the filter follows from

    R(i, Δ) = Σ_{u ∈ U(i, Δ)} x(u)ᵀ x(u + Δ),    U(i, Δ) = [max(0, i − p), min(H − Δ, H' + i − p)),

summed over the examples. This is exact at the image's border too, because rows of padding
contribute nothing. The windows U of one Δ differ only near the border. They are cut wherever one
of them begins or ends, each piece is one product of two matrices, and a window is a sum of pieces.
The same holds along the columns for the entries of R: the block of filter columns j and j' is the
sum of the [c, c] blocks of R at columns (t + j − p, t + j' − p) for t ∈ [0, W').

In wide images, most pairs of columns in R are too far apart to meet in a filter. Then the columns
are cut into tiles, and each tile is multiplied by its neighbourhood only.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.patches.cost import ASSUMED_EXAMPLES, CostEstimate
from kfac.patches.filter_axis import FilterAxis, entry_pairs


class _Tile(NamedTuple):
    """Neighbouring columns, and the columns that a filter can see together with them.

    The columns go from `start` to `stop`, the neighbourhood from `left` to `right`, ends excluded.
    """

    start: int
    stop: int
    left: int
    right: int

    @property
    def pairs(self) -> int:
        """Number of pairs of columns that are multiplied."""
        return (self.stop - self.start) * (self.right - self.left)


def estimate_cost(
    rows: FilterAxis, columns: FilterAxis, channels: int, examples: int
) -> CostEstimate:
    """Estimates the cost of `blocks`."""
    return _estimate_cost(rows, _tiles(rows, columns, channels, examples), channels, examples)


def blocks(images: Tensor, rows: FilterAxis, columns: FilterAxis) -> Tensor:
    """Returns the blocks of all pairs of filter rows (i, i') with i ≤ i', of images [N, H, W, c].

    H, W and c are static. The result is [pairs, c, c, kw · kw], pairs in the order of
    `entry_pairs`.
    """
    channels = images.shape.as_list()[-1]
    examples = images.shape.as_list()[0] or ASSUMED_EXAMPLES
    by_row = tf.transpose(images, [1, 0, 2, 3])
    tiles = _tiles(rows, columns, channels, examples)
    return tf.add_n([_tile_blocks(by_row, rows, columns, tile) for tile in tiles])


def _estimate_cost(
    rows: FilterAxis, tiles: list[_Tile], channels: int, examples: int
) -> CostEstimate:
    row_pairs = sum(max(rows.size - shift, 0) for shift in range(rows.kernel))
    pieces = rows.kernel * (rows.kernel + 1)  # at most: two edges for each window
    entries = sum(tile.pairs for tile in tiles) * channels**2
    copied = sum(tile.stop - tile.start + tile.right - tile.left for tile in tiles)
    return CostEstimate(
        multiplications=entries * examples * row_pairs,
        written=entries * pieces + examples * rows.size * copied * channels,
        products=len(tiles) * pieces,
    )


def _tiles(rows: FilterAxis, columns: FilterAxis, channels: int, examples: int) -> list[_Tile]:
    """Returns the cheapest way to cut the columns."""
    reach = columns.kernel - 1

    def cut(width: int) -> list[_Tile]:
        edges = [(s, min(s + width, columns.size)) for s in range(0, columns.size, width)]
        return [_Tile(s, e, max(0, s - reach), min(columns.size, e + reach)) for s, e in edges]

    ways = [cut(width) for width in range(columns.size, 0, -1)]
    return min(ways, key=lambda tiles: _estimate_cost(rows, tiles, channels, examples).cost)


def _tile_blocks(by_row: Tensor, rows: FilterAxis, columns: FilterAxis, tile: _Tile) -> Tensor:
    """Returns a tile's contribution to the blocks, of images [H, N, W, c]."""
    channels = by_row.shape.as_list()[-1]
    ours = by_row[:, :, tile.start : tile.stop]
    others = by_row[:, :, tile.left : tile.right]
    pieces = _pieces(rows)
    products = [
        tf.matmul(
            _flat(ours[start:stop]), _flat(others[start + shift : stop + shift]), transpose_a=True
        )
        for shift, start, stop in pieces
    ]
    shape = [len(pieces), tile.stop - tile.start, channels, tile.right - tile.left, channels]
    by_column = tf.transpose(tf.reshape(tf.stack(products), shape), [0, 2, 4, 1, 3])
    meets = tf.constant(_meetings(columns, tile), by_row.dtype)
    flat = tf.matmul(tf.reshape(by_column, [-1, tile.pairs]), meets)
    # A product rather than additions, whose order may vary and change the rounding.
    windows = tf.constant(_windows(rows, pieces), by_row.dtype)
    sums = tf.matmul(windows, tf.reshape(flat, [len(pieces), -1]))
    return tf.reshape(sums, [len(entry_pairs(rows.kernel)), channels, channels, -1])


def _pieces(rows: FilterAxis) -> list[tuple[int, int, int]]:
    """Returns the pieces of the windows as (Δ, first row u, end), or one piece without rows."""
    pieces = []
    for shift in range(rows.kernel):
        windows = [rows.window(entry, shift) for entry in range(rows.kernel - shift)]
        cuts = sorted({edge for start, stop in windows if start < stop for edge in (start, stop)})
        pieces += [(shift, start, stop) for start, stop in itertools.pairwise(cuts)]
    return pieces or [(0, 0, 0)]


def _windows(rows: FilterAxis, pieces: list[tuple[int, int, int]]) -> np.ndarray:
    """Returns bool [pairs, pieces], true if a piece is in the window of a pair of filter rows."""
    found = []
    for entry, other in entry_pairs(rows.kernel):
        first, last = rows.window(entry, other - entry)
        found.append([shift == other - entry and first <= at < last for shift, at, _ in pieces])
    return np.array(found)


def _flat(rows: Tensor) -> Tensor:
    """Returns [h, N, w, c] as [h · N, w · c], which copies nothing if rows are whole."""
    return tf.reshape(rows, [-1, math.prod(rows.shape[2:])])


def _meetings(columns: FilterAxis, tile: _Tile) -> np.ndarray:
    """Returns the pairs of columns that each pair of the filter's columns sees together.

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
