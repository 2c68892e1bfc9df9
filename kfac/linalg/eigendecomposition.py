"""Functions of a damped matrix M + d·I by the eigendecomposition of M, which is clipped at zero.

M is a second moment, so it has no negative eigenvalues but for rounding: each is replaced by zero
here, in powers, in EKFAC's eigenbasis and in the last attempt at an inverse alike.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
  George, Laurent, Bouthillier, Ballas & Vincent (2018), arXiv:1806.03884, for the eigenbasis.
"""

from typing import NamedTuple

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.damped_matrix import KEPT, NO_RARE_PATH, DampedMatrix
from kfac.linalg.tensor_ops import all_finite, identity_like, symmetrize

v1 = tf.compat.v1


class Eigendecomposition(NamedTuple):
    """M = U diag(e) Uᵀ of a symmetric matrix [n, n].

    The values e are ascending, negative ones replaced by zero. `is_usable`, bool [], is true if M
    was finite; if not, they are those of the identity.
    """

    values: Tensor
    vectors: Tensor
    is_usable: Tensor


def eigendecompose(matrix: Tensor) -> Eigendecomposition:
    """Decomposes a symmetric matrix [n, n], which may have entries that are not finite."""
    matrix = symmetrize(matrix)
    is_usable = all_finite(matrix)
    # The kernel aborts the step when it meets NaN.
    values, vectors = tf.linalg.eigh(tf.where(is_usable, matrix, identity_like(matrix)))
    return Eigendecomposition(tf.maximum(values, 0), vectors, is_usable)


def eigenbasis(matrix: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns U and below it e, [n + 1, n]; U is the same for M and for M + d·I.

    Returns `previous` if M, symmetric, is not finite.
    """
    values, vectors, is_usable = eigendecompose(matrix)
    return _result(is_usable, tf.concat([vectors, values[tf.newaxis]], axis=0), previous)


def damped_power(
    decomposition: Eigendecomposition, damping: Tensor, exponent: float, previous: Tensor
) -> DampedMatrix:
    """Returns (M + d·I)^e from the eigendecomposition of M, with d > 0, shape [], and any e.

    Returns `previous` if M or d is not finite, d ≤ 0, or the power overflows.
    """
    values, vectors, is_usable = decomposition
    usable = tf.logical_and(is_usable, tf.math.is_finite(tf.math.log(damping)))
    damping = tf.where(usable, damping, tf.ones_like(damping))
    power = symmetrize(
        tf.matmul(vectors * (values + damping) ** exponent, vectors, transpose_b=True)
    )
    return _result(tf.logical_and(usable, all_finite(power)), power, previous)


def _result(good: Tensor, matrix: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns `matrix` if `good`, else `previous`, without any retry."""
    none, kept = (tf.constant(path, tf.int64) for path in (NO_RARE_PATH, KEPT))
    return DampedMatrix(v1.where(good, matrix, previous), v1.where(good, none, kept))
