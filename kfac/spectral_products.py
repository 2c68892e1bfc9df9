"""Second moments of patches from products of Fourier transforms.

One way to find the blocks that `kfac.shifted_correlation` asks for, the best where there are many
channels: it multiplies far less than `kfac.row_products`.

Let x(v) be pixel v along one dimension. Entries j and j' of the filter see x(t + j − p) and
x(t + j' − p) at locations t ∈ [0, W') with p pixels of padding, and Σ_t x(t + j − p)ᵀ x(t + j' − p)
is wanted. Did t go on until both leave the image, it would be the correlation at the shift
Δ = j' − j, which takes one product per frequency: with C(ω) = Σ_v cos(ωv) x(v),
S(ω) = Σ_v sin(ωv) x(v) and the frequencies ω = 2π(k + ½)/n for k < n/2,

    Σ_v x(v)ᵀ x(v + Δ) = 2/n Σ_ω cos(ωΔ) (CᵀC + SᵀS) + sin(ωΔ) (CᵀS − SᵀC)

for even n ≥ W + kernel − 1, which is enough for what leaves the image not to return within a
filter. Pairs of pixels that are seen at t < 0 or t ≥ W' only are taken off again. They are near the
border, and as few as the filter is small.

So what is wanted is a sum of products of transformed pixels, and only of those within small groups:
C and S of one frequency, or two pixels near one border. For images, rows and columns are
transformed one after the other, and groups of the one are combined with all groups of the other.

References:
  Winograd (1980), "Arithmetic Complexity of Computations".
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.filter_axis import FilterAxis, entry_pairs
from kfac.linalg import static_size
from kfac.work import Work

SMALLEST_PRODUCT = 16
"""Products of matrices with fewer rows or columns take as long as with so many."""

_Group = tuple[np.ndarray, np.ndarray]
"""What two members [2, size] are made of, and the weights [kernel, kernel, 2, 2] of products."""


def transform(axis: FilterAxis) -> tuple[np.ndarray, np.ndarray]:
    """Returns how one dimension is transformed, and how products are added up afterwards.

    Returns:
      Arrays [groups, 2, size], F, and [kernel, kernel, groups, 2, 2], w. For x [size, c] and
      y = F x, what entries j and j' see is multiplied by Σ_g Σ_ab w[j, j', g, a, b] y_gaᵀ y_gb.
    """
    groups = [*_frequencies(axis), *_borders(axis)]
    members, weights = zip(*groups, strict=True)
    return np.stack(members), np.stack(weights, axis=2)


def _frequencies(axis: FilterAxis) -> list[_Group]:
    """Returns the groups of cosine and sine."""
    length = axis.size + axis.kernel - 1
    length += length % 2
    shifts = np.subtract.outer(np.arange(axis.kernel), np.arange(axis.kernel)).T
    groups = []
    for omega in 2 * np.pi * (np.arange(length // 2) + 0.5) / length:
        angles = omega * np.arange(axis.size)
        cosines, sines = (2 / length * f(omega * shifts) for f in (np.cos, np.sin))
        weights = np.stack([[cosines, sines], [-sines, cosines]])
        groups.append(
            (np.stack([np.cos(angles), np.sin(angles)]), np.moveaxis(weights, (0, 1), (2, 3)))
        )
    return groups


def _borders(axis: FilterAxis) -> list[_Group]:
    """Returns the groups of pixels that take off what is seen outside of the locations."""
    first = range(min(axis.size, axis.kernel - 1 - axis.before))
    last = range(max(0, axis.out - axis.before), axis.size)
    return [
        *_border(axis, first, lambda location: location < 0),
        *_border(axis, last, lambda location: location >= axis.out),
    ]


def _border(
    axis: FilterAxis, pixels: Sequence[int], is_outside: Callable[[int], bool]
) -> list[_Group]:
    """Returns a group for each two of the pixels, or one for a single pixel."""
    groups: list[_Group] = []
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


def work(rows: FilterAxis, columns: FilterAxis, channels: int, examples: int) -> Work:
    """Estimates the work of `blocks`."""
    m, n = (len(transform(axis)[0]) for axis in (rows, columns))
    pairs, entries = len(entry_pairs(rows.kernel)), 4 * channels**2
    half, whole = (2 * m * size * channels * examples for size in (columns.size, 2 * n))
    product = max(2 * channels, SMALLEST_PRODUCT) ** 2 * examples
    sums = pairs * n * entries
    return Work(
        multiplications=half * rows.size
        + whole * columns.size
        + 3 * m * n * product
        + sums * (4 * m + columns.kernel**2),
        written=rows.size * columns.size * channels * examples + half + whole + 3 * sums,
        products=8,
    )


def blocks(images: Tensor, rows: FilterAxis, columns: FilterAxis) -> Tensor:
    """Returns the blocks of all pairs of filter rows (i, i') with i ≤ i'.

    Args:
      images: [N, H, W, c] with static H, W, c.
      rows: Their rows.
      columns: Their columns.

    Returns:
      [pairs, c, c, kw · kw], pairs in the order of `entry_pairs`.
    """
    channels, dtype = static_size(images, -1), images.dtype
    of_rows, row_weights = transform(rows)
    of_columns, column_weights = transform(columns)
    m, n = len(of_rows), len(of_columns)
    y = tf.reshape(tf.transpose(images, [1, 2, 3, 0]), [rows.size, -1])
    y = tf.matmul(tf.constant(of_rows.swapaxes(0, 1).reshape(2 * m, -1), dtype), y)
    y = tf.reshape(y, [2 * m, columns.size, -1])
    y = tf.matmul(tf.constant(of_columns.reshape(2 * n, -1), dtype), y)
    y = tf.reshape(y, [2, m * n, 2 * channels, -1])
    weights = np.stack([row_weights[pair] for pair in entry_pairs(rows.kernel)])
    sums = tf.reshape(_added_over_rows(y, weights), [len(weights), n, 2, channels, 2, channels])
    by_group = tf.reshape(tf.transpose(sums, [0, 3, 5, 1, 2, 4]), [-1, 4 * n])
    column_weights = np.moveaxis(column_weights, (0, 1), (3, 4)).reshape(4 * n, -1)
    found = tf.matmul(by_group, tf.constant(column_weights, dtype))
    return tf.reshape(found, [len(weights), channels, channels, -1])


def _added_over_rows(y: Tensor, weights: np.ndarray) -> Tensor:
    """Multiplies the members of all groups, and adds up over groups of rows.

    Args:
      y: [2, m · n, 2c, N], of m groups of rows and n of columns; the first axis is the member of a
        group of rows, the third that of a group of columns with the channels.
      weights: [pairs, m, 2, 2].

    Returns:
      [pairs · n, 2c, 2c].
    """
    pairs, size = len(weights), static_size(y, 2)

    def added(products: Tensor, factors: np.ndarray) -> Tensor:
        factors = tf.constant(factors.reshape(pairs, -1), y.dtype)
        flat = tf.reshape(products, [factors.shape[1], -1])
        return tf.reshape(tf.matmul(factors, flat), [-1, size, size])

    own = tf.matmul(y, y, transpose_b=True)
    other = tf.matmul(y[0], y[1], transpose_b=True)
    both = np.stack([weights[:, :, 0, 0], weights[:, :, 1, 1]], axis=1)
    # The product of a group's second member with its first is a transpose.
    transposed = tf.transpose(added(other, weights[:, :, 1, 0]), [0, 2, 1])
    return added(own, both) + added(other, weights[:, :, 0, 1]) + transposed
