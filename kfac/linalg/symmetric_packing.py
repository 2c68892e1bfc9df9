"""Symmetric matrices packed into rectangles of half the size, for transfers between devices.

Called by factors whose statistic is summed over towers on several devices.
"""

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.tensor_ops import diagonal, static_size


def pack_symmetric(matrix: Tensor) -> Tensor:
    """Packs a symmetric matrix [n, n] into [h, 2h + 1], with h = ⌈n/2⌉.

    Cut into quarters of h rows, M = [[A, Bᵀ], [B, C]]. The lower triangle of A and the upper one
    of C, one column to the right, fill [h, h + 1] without overlap; B stands beside them. For even n
    this is n(n + 1)/2 numbers, for odd n a row of zeros is added first. Sums of packed matrices are
    packed sums.

    Args:
      matrix: [n, n] with static n.
    """
    size = static_size(matrix, 0)
    half = (size + 1) // 2
    even = tf.pad(matrix, [[0, 1], [0, 1]]) if size % 2 else matrix
    top, bottom = tf.split(even, 2)
    corner, last = tf.split(bottom, 2, axis=1)
    lower = tf.linalg.band_part(top[:, :half], -1, 0)
    upper = tf.linalg.band_part(last, 0, -1)
    triangles = tf.pad(lower, [[0, 0], [0, 1]]) + tf.pad(upper, [[0, 0], [1, 0]])
    return tf.concat([corner, triangles], axis=1)


def unpack_symmetric(packed: Tensor, size: int) -> Tensor:
    """Undoes `pack_symmetric`.

    Args:
      packed: [h, 2h + 1].
      size: n.

    Returns:
      [n, n], exactly symmetric.
    """
    half = (size + 1) // 2
    corner, triangles = tf.split(packed, [half, half + 1], axis=1)
    lower = tf.linalg.band_part(triangles[:, :half], -1, 0)
    upper = tf.linalg.band_part(triangles[:, 1:], 0, -1)
    first, last = _mirror(lower), _mirror(upper)
    top = tf.concat([first, tf.transpose(corner)], axis=1)
    bottom = tf.concat([corner, last], axis=1)
    even = tf.concat([top, bottom], axis=0)
    return even[:size, :size] if size % 2 else even


def _mirror(triangle: Tensor) -> Tensor:
    """Returns the symmetric matrix with this lower or upper triangle."""
    doubled = triangle + tf.transpose(triangle)
    return tf.raw_ops.MatrixSetDiag(input=doubled, diagonal=diagonal(triangle))
