"""Further attempts at a function of a damped matrix, in float64, each more costly than the last.

All attempts are one shared function for matrices of all sizes. It runs where the first attempt
failed.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.shared import shared
from kfac.linalg.tensor_ops import all_finite, choose, diagonal, identity_like

RETRY_DAMPING_FACTORS = (1.0, 10.0, 100.0, 1000.0)

RARE_PATHS = ("retried", "eigen", "kept")
"""Ways in which an inversion can end other than by success at the first attempt."""

NO_RARE_PATH, KEPT = (0, 0, 0), (0, 0, 1)
"""Counts of `RARE_PATHS`: the first attempt succeeded; the matrix was not finite."""

RootFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function of the Cholesky factor L of M + d·I, and of the identity; both and its result [n, n]."""


@shared
def retry(
    matrix: Tensor, damping: Tensor, usable: Tensor, previous: Tensor, *, function: RootFunction
) -> tuple[Tensor, Tensor]:
    """Returns a function of a damped matrix, and the path to it, as in a `DampedMatrix`.

    M [n, n] is finite and d > 0, shape []. If `usable`, bool [], is false, all attempts are
    skipped. Returns `previous` if all fail.
    """
    wide, wide_damping = tf.cast(matrix, tf.float64), tf.cast(damping, tf.float64)
    identity = identity_like(wide)
    root = _retried_root(wide, wide_damping, identity)
    has_root = all_finite(root)
    root = tf.cond(has_root, lambda: root, lambda: _eigen_root(wide, wide_damping))
    found = tf.cast(function(root, identity), matrix.dtype)
    is_finite = all_finite(found)
    path = tf.cast(tf.logical_not([False, has_root, is_finite]), tf.int64)
    path = choose(usable, path, tf.constant(KEPT, tf.int64))
    return choose(tf.logical_and(usable, is_finite), found, previous), path


def _retried_root(matrix: Tensor, damping: Tensor, identity: Tensor) -> Tensor:
    """Returns L of M + f·d·I for the smallest f of `RETRY_DAMPING_FACTORS` for which it is finite.

    If no factor succeeds, the result has entries that are not finite.
    """
    factors = tf.constant(
        RETRY_DAMPING_FACTORS, matrix.dtype, shape=[len(RETRY_DAMPING_FACTORS), 1, 1]
    )
    roots = tf.linalg.cholesky(matrix + damping * factors * identity)
    succeeded = tf.reduce_all(tf.math.is_finite(roots), axis=[1, 2])
    # argmax finds the first success, or 0 if there is none.
    return tf.gather(roots, tf.argmax(tf.cast(succeeded, roots.dtype)))


def _eigen_root(matrix: Tensor, damping: Tensor) -> Tensor:
    """Returns the Cholesky factor of U diag(max(e, 0) + d) Uᵀ, where M = U diag(e) Uᵀ.

    With B = U diag(max(e, 0) + d)^½ the matrix is BBᵀ, and Bᵀ = QR makes it RᵀR.
    """
    values, vectors = tf.linalg.eigh(matrix)
    root = vectors * tf.sqrt(tf.maximum(values, 0) + damping)
    upper = tf.linalg.qr(tf.transpose(root)).r
    return tf.transpose(upper) * tf.sign(diagonal(upper))
