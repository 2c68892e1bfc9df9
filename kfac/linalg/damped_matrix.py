"""Functions of a damped matrix M + d·I, with a failure policy: inverse, powers, Cholesky factors.

The functions never raise at run time and never return anything that is not finite. They report the
path by which they found the result. The first attempt at an inverse is in `kfac.linalg.inversion`.
Called by the slots in which factors keep such matrices.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

import functools
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.inversion import INVERSIONS, LARGEST_BLOCK, inverse_from_root
from kfac.linalg.retries import KEPT, NO_RARE_PATH, RootFunction, retry
from kfac.linalg.shared import shared, sizes_above
from kfac.linalg.tensor_ops import (
    add_to_diagonal,
    all_finite,
    choose,
    identity_like,
    symmetrize,
)

Attempt: TypeAlias = RootFunction
"""Function of M + d·I and of the identity; not finite where it fails."""


class Attempts(NamedTuple):
    """Ways to compute a function of M + d·I, defined in modules, because they are keys of a cache.

    `first` computes it from M + d·I and the identity. `from_root` computes it from the Cholesky
    factor of M + d·I and the identity: that is tried several times in float64 afterwards.
    """

    first: Attempt
    from_root: RootFunction


class DampedMatrix(NamedTuple):
    """A function of a damped matrix [n, n], finite, and the path by which it was found.

    `rare_paths`, int64 [3], in the order of `RARE_PATHS`: 1 if the first attempt failed; 1 if an
    eigendecomposition had to be used; 1 if the previous matrix was kept.
    """

    matrix: Tensor
    rare_paths: Tensor


class Eigendecomposition(NamedTuple):
    """M = U diag(e) Uᵀ of a symmetric matrix [n, n].

    The values e are ascending, negative ones replaced by zero. `is_usable`, bool [], is true if M
    was finite; if not, they are those of the identity.
    """

    values: Tensor
    vectors: Tensor
    is_usable: Tensor


def damped_inverse(
    matrix: Tensor, damping: Tensor, previous: Tensor, method: str = "cholesky"
) -> DampedMatrix:
    """Returns (M + d·I)⁻¹, symmetric, and the path that gave it.

    M [n, n] is symmetric, float32 or float64, and positive semi-definite if all is well. d, shape
    [], is of the same dtype. `method` is a key of `kfac.linalg.inversion.INVERSIONS`. In order,
    until the result is finite:

    1. M, d not finite or d ≤ 0: the previous inverse.
    2. The given method in the given precision. This is the whole cost of an ordinary call.
    3. Cholesky in float64 with 1, 10, 100 and 1000 times the damping.
    4. Eigendecomposition in float64, negative eigenvalues set to zero.
    5. The previous inverse.
    """
    attempts = Attempts(INVERSIONS[method], inverse_from_root)
    return _of_size(previous, _damped_function(matrix, damping, previous, attempts=attempts))


def damped_cholesky(matrix: Tensor, damping: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns the lower triangular L with LLᵀ = M + d·I; see `damped_inverse`."""
    attempts = _by_root(_root_itself)
    return _of_size(previous, _damped_function(matrix, damping, previous, attempts=attempts))


def damped_cholesky_inverse(matrix: Tensor, damping: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns L⁻¹, lower triangular, where LLᵀ = M + d·I; see `damped_inverse`."""
    attempts = _by_root(tf.linalg.triangular_solve)
    return _of_size(previous, _damped_function(matrix, damping, previous, attempts=attempts))


def _of_size(previous: Tensor, found: DampedMatrix) -> DampedMatrix:
    found.matrix.set_shape(previous.shape)
    return found


def eigendecompose(matrix: Tensor) -> Eigendecomposition:
    """Decomposes a symmetric matrix [n, n], which may have entries that are not finite."""
    matrix = symmetrize(matrix)
    is_usable = all_finite(matrix)
    # The kernel aborts the step when it meets NaN.
    values, vectors = tf.linalg.eigh(tf.where(is_usable, matrix, identity_like(matrix)))
    return Eigendecomposition(tf.maximum(values, 0), vectors, is_usable)


def eigenbasis(matrix: Tensor, damping: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns U and below it e, [n + 1, n]; U is the same for M and for M + d·I.

    Returns `previous` if M, symmetric, is not finite.
    """
    del damping
    values, vectors, is_usable = eigendecompose(matrix)
    return _result(is_usable, tf.concat([vectors, values[tf.newaxis]], axis=0), previous)


def damped_power(
    decomposition: Eigendecomposition, damping: Tensor, exponent: float, previous: Tensor
) -> DampedMatrix:
    """Returns (M + d·I)^e from the eigendecomposition of M, with d > 0, shape [], and any e.

    Returns `previous` if M or d is not finite, d ≤ 0, or the power overflows.
    """
    values, vectors, is_usable = decomposition
    usable = tf.logical_and(is_usable, _is_damping(damping))
    damping = tf.where(usable, damping, tf.ones_like(damping))
    power = symmetrize(
        tf.matmul(vectors * (values + damping) ** exponent, vectors, transpose_b=True)
    )
    return _result(tf.logical_and(usable, all_finite(power)), power, previous)


def _result(good: Tensor, matrix: Tensor, previous: Tensor) -> DampedMatrix:
    """Returns `matrix` if `good`, else `previous`, without any retry."""
    none, kept = (tf.constant(path, tf.int64) for path in (NO_RARE_PATH, KEPT))
    return DampedMatrix(choose(good, matrix, previous), choose(good, none, kept))


def _is_damping(damping: Tensor) -> Tensor:
    """Returns bool [], true if d is finite and d > 0, that is, if its logarithm is finite."""
    return tf.math.is_finite(tf.math.log(damping))


def _root_itself(root: Tensor, identity: Tensor) -> Tensor:
    del identity
    return root


@functools.cache
def _by_root(function: RootFunction) -> Attempts:
    """Returns the ways to compute a function of the Cholesky factor L as one of LLᵀ."""

    def attempt(damped: Tensor, identity: Tensor) -> Tensor:
        return function(tf.linalg.cholesky(damped), identity)

    return Attempts(attempt, function)


@shared(sizes=sizes_above(LARGEST_BLOCK))
def _damped_function(
    matrix: Tensor, damping: Tensor, previous: Tensor, *, attempts: Attempts
) -> DampedMatrix:
    """Returns a function of a damped matrix, with the failure policy; see `damped_inverse`.

    Most attempts read the lower triangle of M only. TensorFlow's Cholesky decomposition reports
    failure by NaN on a CPU, and eigendecompositions of NaN abort the step, so inputs and results
    are checked here.
    """
    usable = tf.logical_and(all_finite(matrix), _is_damping(damping))
    # Some kernels raise on NaN, so an unusable input is replaced before anything is decomposed.
    # The replacement is computed: TensorFlow would store a known one as a constant.
    matrix = tf.math.multiply_no_nan(matrix, tf.cast(usable, matrix.dtype))
    damping = tf.where(usable, damping, tf.ones_like(damping))
    direct = attempts.first(add_to_diagonal(matrix, damping), identity_like(matrix))
    succeeded = tf.logical_and(usable, all_finite(direct))
    retried = retry(
        _unless(succeeded, matrix), damping, usable, previous, function=attempts.from_root
    )
    pairs = zip((direct, tf.constant(NO_RARE_PATH, tf.int64)), retried, strict=True)
    return DampedMatrix(*(_first(succeeded, *pair) for pair in pairs))


def _unless(is_found: Tensor, tensor: Tensor) -> Tensor:
    """Returns a Tensor that is dead if a result was found already.

    Operations on dead Tensors do not run, so an unnecessary decomposition costs nothing.
    """
    return tf.raw_ops.Switch(data=tensor, pred=is_found).output_false


def _first(is_found: Tensor, tensor: Tensor, otherwise: Tensor) -> Tensor:
    """Returns the first Tensor if a result was found already, else the other one of equal shape."""
    found = tf.raw_ops.Switch(data=tensor, pred=is_found).output_true
    merged = tf.raw_ops.Merge(inputs=[found, otherwise]).output
    merged.set_shape(tensor.shape)
    return merged
