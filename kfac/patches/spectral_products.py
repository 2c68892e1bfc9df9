"""Second moments of patches from products of Fourier transforms.

The faster way for many channels to compute the blocks that `second_moment` needs: it multiplies
far less than `row_products`.

Let x(v) be pixel v along one dimension. Entries j and j' of the filter see x(t + j − p) and
x(t + j' − p) at locations t ∈ [0, W') with p pixels of padding. The aim is
Σ_t x(t + j − p)ᵀ x(t + j' − p). If t went on until both entries leave the image, the sum would be
the correlation at the shift Δ = j' − j. That takes one product per frequency: with
C(ω) = Σ_v cos(ωv) x(v),
S(ω) = Σ_v sin(ωv) x(v) and the frequencies ω = 2π(k + ½)/n for k < n/2,

    Σ_v x(v)ᵀ x(v + Δ) = 2/n Σ_ω cos(ωΔ) (CᵀC + SᵀS) + sin(ωΔ) (CᵀS − SᵀC)

for even n ≥ W + kernel − 1. With this n, pixels on opposite sides of the image do not meet in a
filter. Pairs of pixels that are seen only at t < 0 or t ≥ W' are subtracted again. They are near
the border, and few if the filter is small.

So the result is a sum of products of transformed pixels within small groups: C and S of one
frequency, or two pixels near one border.

In images, rows and columns are transformed one after the other, and each group of the rows is
combined with all groups of the columns. A combination has four transforms [c, N] and needs three
products [2c, 2c] of them.

If both groups are frequencies, ω of the rows and ν of the columns, the columns are transformed to
cosine C and sine S of the waves along ωu + νv and along ωu − νv. For each of these two, a product
of C and S with themselves [2c, 2c] holds E = CᵀC + SᵀS and O = CᵀS − SᵀC, and the blocks are

    1/(2mn) Σ cos(ωΔ ± νΔ') E + sin(ωΔ ± νΔ') O

for entries that are Δ rows and Δ' columns apart, and m and n frequencies.

References:
  Winograd (1980), "Arithmetic Complexity of Computations".
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.patches.cost import CostEstimate
from kfac.patches.filter_axis import FilterAxis, entry_pairs

SMALLEST_PRODUCT = 16
"""Products of matrices with fewer rows or columns take as long as products of this size."""


class Groups(NamedTuple):
    """Groups g of two members a, y_ga = Σ_v members[g, a, v] x(v).

    The product for entries j and j' is Σ_g Σ_ab weights[j, j', g, a, b] y_gaᵀ y_gb, over all groups
    of `waves` and of `borders`. Members are [groups, 2, size], and weights are
    [kernel, kernel, groups, 2, 2].
    """

    members: np.ndarray
    weights: np.ndarray

    def joined(self, others: "Groups") -> "Groups":
        """Returns these groups and others along the same dimension."""
        return Groups(
            np.concatenate([self.members, others.members]),
            np.concatenate([self.weights, others.weights], axis=2),
        )


def frequencies(axis: FilterAxis) -> np.ndarray:
    """Returns ω in radians per pixel."""
    half = (axis.size + axis.kernel) // 2
    return np.pi * (np.arange(half) + 0.5) / half


def shifts(axis: FilterAxis) -> np.ndarray:
    """Returns Δ = j' − j of all pairs of entries, [kernel, kernel]."""
    entries = np.arange(axis.kernel)
    return entries - entries[:, np.newaxis]


def waves(axis: FilterAxis) -> Groups:
    """Returns the groups of cosine and sine, one for each frequency."""
    omega = frequencies(axis)
    angles = np.multiply.outer(omega, np.arange(axis.size))
    turns = np.multiply.outer(shifts(axis), omega)
    cosines, sines = (f(turns) / len(omega) for f in (np.cos, np.sin))
    return Groups(
        np.stack([np.cos(angles), np.sin(angles)], axis=1),
        np.stack([cosines, sines, -sines, cosines], axis=-1).reshape(*turns.shape, 2, 2),
    )


def borders(axis: FilterAxis) -> Groups:
    """Returns the groups that subtract the products seen outside of the locations."""
    first = range(min(axis.size, axis.kernel - 1 - axis.before))
    last = range(max(0, axis.out - axis.before), axis.size)
    groups = [
        *_border(axis, first, lambda location: location < 0),
        *_border(axis, last, lambda location: location >= axis.out),
    ]
    members = np.array([members for members, _ in groups]).reshape(-1, 2, axis.size)
    weights = np.array([weights for _, weights in groups])
    weights = weights.reshape(-1, axis.kernel, axis.kernel, 2, 2)
    return Groups(members, np.moveaxis(weights, 0, 2))


def _border(
    axis: FilterAxis, pixels: Sequence[int], is_outside: Callable[[int], bool]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns members and weights for each two of the pixels, or for a single pixel."""
    groups = []
    done = set()
    for pair in itertools.combinations(pixels, min(2, len(pixels))) if pixels else ():
        members = np.zeros([2, axis.size])
        weights = np.zeros([axis.kernel, axis.kernel, 2, 2])
        members[range(len(pair)), pair] = 1
        for (a, ours), (b, others) in itertools.product(enumerate(pair), repeat=2):
            if (ours, others) in done:
                continue
            done.add((ours, others))
            for j, other_j in np.ndindex(axis.kernel, axis.kernel):
                if other_j - j == others - ours and is_outside(ours - j + axis.before):
                    weights[j, other_j, a, b] = -1
        groups.append((members, weights))
    return groups


def estimate_cost(
    rows: FilterAxis, columns: FilterAxis, channels: int, examples: int
) -> CostEstimate:
    """Estimates the cost of `blocks`."""
    m, n = (len(frequencies(axis)) for axis in (rows, columns))
    top, side = (len(borders(axis).members) for axis in (rows, columns))
    pixels, squared = channels * examples, columns.kernel**2
    near = top * (n + side) + m * side
    half, whole = 2 * (m + top) * columns.size * pixels, 4 * m * n * pixels
    product = max(2 * channels, SMALLEST_PRODUCT) ** 2 * examples
    sums = 4 * channels**2 * n * 4 * rows.kernel
    near_sums = 4 * channels**2 * (n + 2 * side) * len(entry_pairs(rows.kernel))
    return CostEstimate(
        multiplications=half * rows.size
        + 2 * (whole + 2 * near * pixels) * columns.size
        + (2 * m * n + 3 * near) * product
        + sums * (m + squared)
        + near_sums * (4 * top + squared),
        written=rows.size * columns.size * pixels
        + (half + whole + 4 * near * pixels)
        + (2 * sums + 3 * near_sums),
        products=14,
    )


def blocks(images: Tensor, rows: FilterAxis, columns: FilterAxis) -> Tensor:
    """Returns the blocks of all pairs of filter rows (i, i') with i ≤ i', of images [N, H, W, c].

    H, W and c are static. The result is [pairs, c, c, kw · kw], pairs in the order of
    `entry_pairs`.
    """
    channels = images.shape.as_list()[-1]
    of_rows, top, side = waves(rows), borders(rows), borders(columns)
    half = 2 * len(of_rows.members)
    y = tf.reshape(tf.transpose(images, [1, 2, 3, 0]), [rows.size, -1])
    members = np.concatenate([*of_rows.members, *top.members.swapaxes(0, 1)])
    y = tf.reshape(_times(members, y), [len(members), columns.size, -1])
    y, near_top = y[:half], y[half:]
    found = [_of_waves(y, rows, columns, channels)]
    if len(top.members):
        whole = waves(columns).joined(side)
        near_top = _times(whole.members, near_top)
        found.append(_of_groups(near_top, top, whole, channels))
    if len(side.members):
        # Each member is a pixel. A group of one has another, of weight zero.
        pixels = side.members.argmax(-1).ravel()
        near_side = tf.reshape(tf.gather(y, pixels, axis=1), [half // 2, 2, -1])
        near_side = tf.transpose(near_side, [1, 0, 2])
        found.append(_of_groups(near_side, of_rows, side, channels))
    return tf.add_n(found)


def _times(matrix: np.ndarray, x: Tensor) -> Tensor:
    """Returns a constant [..., size], taken as [rows, size], times matrices x [..., size, d]."""
    return tf.matmul(tf.constant(matrix.reshape(-1, matrix.shape[-1]), x.dtype), x)


def _of_waves(y: Tensor, rows: FilterAxis, columns: FilterAxis, channels: int) -> Tensor:
    """Returns the contribution of frequencies of rows with frequencies of columns to the blocks.

    y is [2m, W, c · N], cosine and sine of each frequency of the rows.
    """
    of_rows, n = frequencies(rows), len(frequencies(columns))
    y = _times(_wave_members(columns), tf.reshape(y, [len(of_rows), 2 * columns.size, -1]))
    y = tf.reshape(y, [len(of_rows) * n * 2, 2 * channels, -1])
    products = tf.reshape(tf.matmul(y, y, transpose_b=True), [len(of_rows), -1])
    turns = np.multiply.outer(np.arange(rows.kernel), of_rows)
    sums = _times(np.stack([np.cos(turns), np.sin(turns)]) / len(of_rows), products)
    sums = tf.reshape(sums, [2, rows.kernel, n * 2, 2, channels, 2, channels])
    sums = tf.transpose(sums, [1, 4, 6, 0, 2, 3, 5])
    by_distance = _added_over_columns(sums, _wave_weights(columns))
    return tf.gather(by_distance, [other - i for i, other in entry_pairs(rows.kernel)])


def _wave_members(columns: FilterAxis) -> np.ndarray:
    """Returns the transform of cosine and sine along the rows to cosine and sine of waves.

    It is [n, 2, 2, 2 · W], by frequency of the columns, sign of ν, and cosine or sine.
    """
    cosines, sines = waves(columns).members.swapaxes(0, 1)
    plus = [np.hstack([cosines, -sines]), np.hstack([sines, cosines])]
    minus = [np.hstack([cosines, sines]), np.hstack([-sines, cosines])]
    return np.moveaxis(np.array([plus, minus]), 2, 0)


def _wave_weights(columns: FilterAxis) -> np.ndarray:
    """Returns the weights of products of waves in the sum over the columns.

    They are [2, n, 2, 2, 2, kw, kw]: by factor cos(ωΔ) or sin(ωΔ), frequency of the columns, sign
    of ν, and cosine or sine of the first and of the second wave.
    """
    turns = np.multiply.outer(frequencies(columns), shifts(columns))
    even, odd = np.eye(2), np.array([[0, 1], [-1, 0]])

    def term(numbers: np.ndarray, by_sign: Sequence[int], form: np.ndarray) -> np.ndarray:
        return np.einsum("nij,s,ab->nsabij", numbers / (2 * len(turns)), by_sign, form)

    cosines, sines = np.cos(turns), np.sin(turns)
    with_cosine = term(cosines, [1, 1], even) + term(sines, [1, -1], odd)
    with_sine = term(cosines, [1, 1], odd) - term(sines, [1, -1], even)
    return np.stack([with_cosine, with_sine])


def _of_groups(y: Tensor, rows: Groups, columns: Groups, channels: int) -> Tensor:
    """Returns the contribution of m groups of rows with n groups of columns to the blocks.

    y has 2m · 2n · c · N numbers; by member of a group of rows, group of rows, group of columns,
    and member of that.
    """
    m, n = len(rows.members), len(columns.members)
    weights = np.stack([rows.weights[pair] for pair in entry_pairs(len(rows.weights))])
    # Frequencies have equal weights for all pairs at one distance; borders have mostly zeros.
    weights, which = np.unique(weights, axis=0, return_inverse=True)
    sums = _added_over_rows(tf.reshape(y, [2, m * n, 2 * channels, -1]), weights)
    sums = tf.reshape(sums, [len(weights), n, 2, channels, 2, channels])
    sums = tf.transpose(sums, [0, 3, 5, 1, 2, 4])
    found = _added_over_columns(sums, np.moveaxis(columns.weights, (0, 1), (3, 4)))
    return tf.gather(found, which.ravel())


def _added_over_rows(y: Tensor, weights: np.ndarray) -> Tensor:
    """Multiplies the members of all groups, and sums over groups of rows: [k · n, 2c, 2c].

    y is [2, m · n, 2c, N], of m groups of rows and n of columns; the first axis is the member of a
    group of rows, the third that of a group of columns with the channels. Weights are [k, m, 2, 2].
    """
    size = y.shape.as_list()[2]

    def added(products: Tensor, factors: np.ndarray) -> Tensor:
        factors = factors.reshape(len(weights), -1)
        flat = tf.reshape(products, [factors.shape[1], -1])
        return tf.reshape(_times(factors, flat), [-1, size, size])

    own = tf.matmul(y, y, transpose_b=True)
    other = tf.matmul(y[0], y[1], transpose_b=True)
    both = np.stack([weights[:, :, 0, 0], weights[:, :, 1, 1]], axis=1)
    # The product of a group's second member with its first is a transpose.
    transposed = tf.transpose(added(other, weights[:, :, 1, 0]), [0, 2, 1])
    return added(own, both) + added(other, weights[:, :, 0, 1]) + transposed


def _added_over_columns(sums: Tensor, weights: np.ndarray) -> Tensor:
    """Returns [k, c, c, kw · kw], from sums [k, c, c, ...] and weights [..., kw, kw]."""
    k, channels = sums.shape[:2].as_list()
    squared = weights.shape[-1] ** 2
    factors = tf.constant(weights.reshape(-1, squared), sums.dtype)
    found = tf.matmul(tf.reshape(sums, [-1, factors.shape[0]]), factors)
    return tf.reshape(found, [k, channels, channels, squared])
