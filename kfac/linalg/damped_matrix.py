"""Inverse and Cholesky factors of a damped matrix M + d·I, with a failure policy.

The functions never raise at run time and never return anything that is not finite. They report the
path by which they found the result. The first attempt at an inverse is in `kfac.linalg.inversion`;
further ones, in float64 and each more costly than the last, run only where it failed. Powers are in
`kfac.linalg.eigendecomposition`. Called by the slots in which factors keep such matrices.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

import types
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.inversion import INVERSIONS, LARGEST_BLOCK, inverse_from_root
from kfac.linalg.shared import shared, sizes_above
from kfac.linalg.tensor_ops import add_to_diagonal, all_finite, identity_like

v1 = tf.compat.v1

RETRY_DAMPING_FACTORS = (1.0, 10.0, 100.0, 1000.0)

RARE_PATHS = ("retried", "eigen", "kept")
"""Ways in which an inversion can end other than by success at the first attempt."""

NO_RARE_PATH, KEPT = (0, 0, 0), (0, 0, 1)
"""Counts of `RARE_PATHS`: the first attempt succeeded; the matrix was not finite."""

RootFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function of the Cholesky factor L of M + d·I, and of the identity; both and its result [n, n]."""


class Attempts(NamedTuple):
    """Ways to compute a function of M + d·I.

    `first` computes it from M + d·I and the identity, and is not finite where it fails. `from_root`
    computes it from the Cholesky factor of M + d·I: that is tried several times in float64
    afterwards.
    """

    first: RootFunction
    from_root: RootFunction


class DampedMatrix(NamedTuple):
    """A function of a damped matrix [n, n], finite, and the path by which it was found.

    `rare_paths`, int64 [3], in the order of `RARE_PATHS`: 1 if the first attempt failed; 1 if an
    eigendecomposition had to be used; 1 if the previous matrix was kept.
    """

    matrix: Tensor
    rare_paths: Tensor


def _root_itself(root: Tensor, identity: Tensor) -> Tensor:
    del identity
    return root


def _by_root(function: RootFunction) -> Attempts:
    """Returns the ways to compute a function of the Cholesky factor L as one of LLᵀ."""

    def attempt(damped: Tensor, identity: Tensor) -> Tensor:
        return function(tf.linalg.cholesky(damped), identity)

    return Attempts(attempt, function)


INVERSES: Mapping[str, Attempts] = types.MappingProxyType(
    {name: Attempts(first, inverse_from_root) for name, first in INVERSIONS.items()}
)
"""The inverse (M + d·I)⁻¹, by the name of the first attempt."""

CHOLESKY = _by_root(_root_itself)
"""The lower triangular L with LLᵀ = M + d·I."""

CHOLESKY_INVERSE = _by_root(tf.linalg.triangular_solve)
"""L⁻¹."""


@shared(sizes=sizes_above(LARGEST_BLOCK))
def damped_function(
    matrix: Tensor, damping: Tensor, previous: Tensor, *, attempts: Attempts
) -> DampedMatrix:
    """Returns a function of M + d·I, and the path that gave it.

    M [n, n] is symmetric, float32 or float64, and positive semi-definite if all is well. d, shape
    [], is of the same dtype. In order, until the result is finite:

    1. M, d not finite or d ≤ 0: the previous result.
    2. The first attempt in the given precision. This is the whole cost of an ordinary call.
    3. Cholesky in float64 with 1, 10, 100 and 1000 times the damping.
    4. Eigendecomposition in float64, negative eigenvalues set to zero.
    5. The previous result.

    Most attempts read the lower triangle of M only. TensorFlow's Cholesky decomposition reports
    failure by NaN on a CPU, and eigendecompositions of NaN abort the step, so inputs and results
    are checked here. Operations on Tensors that a switch makes dead do not run: so an unnecessary
    decomposition costs nothing.
    """
    usable = tf.logical_and(all_finite(matrix), tf.math.is_finite(tf.math.log(damping)))
    # Some kernels raise on NaN, so an unusable input is replaced before anything is decomposed.
    # The replacement is computed: TensorFlow would store a known one as a constant.
    matrix = tf.math.multiply_no_nan(matrix, tf.cast(usable, matrix.dtype))
    damping = tf.where(usable, damping, tf.ones_like(damping))
    direct = attempts.first(add_to_diagonal(matrix, damping), identity_like(matrix))
    succeeded = tf.logical_and(usable, all_finite(direct))
    left = tf.raw_ops.Switch(data=matrix, pred=succeeded).output_false
    retried = retry(left, damping, usable, previous, function=attempts.from_root)
    results = []
    for first, other in zip((direct, tf.constant(NO_RARE_PATH, tf.int64)), retried, strict=True):
        found = tf.raw_ops.Switch(data=first, pred=succeeded).output_true
        results.append(tf.raw_ops.Merge(inputs=[found, other]).output)
        results[-1].set_shape(first.shape)
    return DampedMatrix(*results)


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
    factors = tf.constant(RETRY_DAMPING_FACTORS, wide.dtype, [len(RETRY_DAMPING_FACTORS), 1, 1])
    roots = tf.linalg.cholesky(wide + wide_damping * factors * identity)
    succeeded = tf.reduce_all(tf.math.is_finite(roots), axis=[1, 2])
    # argmax finds the first success, or 0 if there is none.
    root = tf.gather(roots, tf.argmax(tf.cast(succeeded, roots.dtype)))
    has_root = all_finite(root)
    root = tf.cond(has_root, lambda: root, lambda: _eigen_root(wide, wide_damping))
    found = tf.cast(function(root, identity), matrix.dtype)
    is_finite = all_finite(found)
    path = tf.cast(tf.logical_not([False, has_root, is_finite]), tf.int64)
    path = v1.where(usable, path, tf.constant(KEPT, tf.int64))
    return v1.where(tf.logical_and(usable, is_finite), found, previous), path


def _eigen_root(matrix: Tensor, damping: Tensor) -> Tensor:
    """Returns the Cholesky factor of U diag(max(e, 0) + d) Uᵀ, where M = U diag(e) Uᵀ.

    With B = U diag(max(e, 0) + d)^½ the matrix is BBᵀ, and Bᵀ = QR makes it RᵀR.
    """
    values, vectors = tf.linalg.eigh(matrix)
    root = vectors * tf.sqrt(tf.maximum(values, 0) + damping)
    upper = tf.linalg.qr(tf.transpose(root)).r
    return tf.transpose(upper) * tf.sign(tf.raw_ops.MatrixDiagPart(input=upper))
