"""Symmetric matrices packed into rectangles of half the size, for transfers between devices.

Cut into quarters of h = ⌈n/2⌉ rows, M = [[A, Bᵀ], [B, C]]. The lower triangle of A and the upper
one of C, one column to the right, fill [h, h + 1] without overlap; B stands beside them. For even n
this is n(n + 1)/2 numbers, for odd n a row of zeros is added first. Sums of packed matrices are
packed sums. Called by factors whose statistic is summed over towers on several devices.
"""

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.shared import shared
from kfac.linalg.tensor_ops import diagonal


def pack_symmetric(matrix: Tensor) -> Tensor:
    """Packs a symmetric matrix [n, n] of static n into [h, 2h + 1], with h = ⌈n/2⌉."""
    size = matrix.shape.as_list()[0]
    half = (size + 1) // 2
    packed = _pack(matrix, is_odd=size % 2 == 1)
    packed.set_shape([half, 2 * half + 1])
    return packed


def unpack_symmetric(packed: Tensor, size: int) -> Tensor:
    """Undoes `pack_symmetric`: returns [n, n] of this size n, exactly symmetric."""
    matrix = _unpack(packed, is_odd=size % 2 == 1)
    matrix.set_shape([size, size])
    return matrix


@shared
def _pack(matrix: Tensor, *, is_odd: bool) -> Tensor:
    even = tf.pad(matrix, [[0, 1], [0, 1]]) if is_odd else matrix
    top, bottom = tf.split(even, 2)
    first, _ = tf.split(top, 2, axis=1)
    corner, last = tf.split(bottom, 2, axis=1)
    lower = tf.linalg.band_part(first, -1, 0)
    upper = tf.linalg.band_part(last, 0, -1)
    triangles = tf.pad(lower, [[0, 0], [0, 1]]) + tf.pad(upper, [[0, 0], [1, 0]])
    return tf.concat([corner, triangles], axis=1)


@shared
def _unpack(packed: Tensor, *, is_odd: bool) -> Tensor:
    half = tf.shape(packed)[0]
    corner, triangles = tf.split(packed, [half, half + 1], axis=1)
    first = _mirror(tf.linalg.band_part(triangles[:, :-1], -1, 0))
    last = _mirror(tf.linalg.band_part(triangles[:, 1:], 0, -1))
    top = tf.concat([first, tf.transpose(corner)], axis=1)
    bottom = tf.concat([corner, last], axis=1)
    even = tf.concat([top, bottom], axis=0)
    return even[:-1, :-1] if is_odd else even


def _mirror(triangle: Tensor) -> Tensor:
    """Returns the symmetric matrix with this lower or upper triangle."""
    doubled = triangle + tf.transpose(triangle)
    return tf.raw_ops.MatrixSetDiag(input=doubled, diagonal=diagonal(triangle))
