"""Ways to invert a positive definite matrix: Cholesky, LU, Newton–Schulz.

The functions never raise at run time. If they fail, the result has entries that are not finite, and
the caller, `kfac.linalg.damped_matrix`, handles the failure. That module also inverts by
eigendecomposition, because several functions of a matrix share one decomposition.

References:
  Schulz (1933), "Iterative Berechnung der reziproken Matrix".
  Pan & Schreiber (1991), "An improved Newton iteration for the generalized inverse of a matrix".
"""

import types
import typing
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.shared import all_sizes, shared
from kfac.linalg.tensor_ops import all_finite, identity_like, outer_product, symmetrize

LARGEST_BLOCK = 320
"""Rows of the largest matrix that is inverted in one piece; larger matrices are halved."""

LARGEST_RESIDUAL = 0.1
"""Largest accepted ‖I − A X‖ of an inverse X found by iteration, in the Frobenius norm."""

MOST_STEPS = 64
"""Number of iterations that is enough for any condition number in float64."""


def inverse_from_root(root: Tensor, identity: Tensor) -> Tensor:
    """Returns (LLᵀ)⁻¹ of the lower triangular L [n, n]."""
    return symmetrize(tf.linalg.cholesky_solve(root, identity))


def by_cholesky(matrix: Tensor, identity: Tensor) -> Tensor:
    """Returns A⁻¹ of a positive definite A [n, n], from its Cholesky decomposition.

    Only the lower triangle of A is read. Large matrices are decomposed and inverted by blocks, so
    that most of the work is products of matrices, which use all cores. Only the triangular root is
    inverted, never a block of A: that would lose twice as many digits.
    """
    size = matrix.shape.as_list()[0]
    if size is None or size <= LARGEST_BLOCK:
        return inverse_from_root(tf.linalg.cholesky(matrix), identity)
    return typing.cast(Tensor, _inverse_by_blocks(matrix))


# Matrices of a size share these functions. Halves of larger ones are among them.


@shared(sizes=all_sizes)
def _inverse_by_blocks(matrix: Tensor) -> Tensor:
    return _gram(_inverse_root_blocks(matrix))


class _Triangular(NamedTuple):
    """A lower triangular matrix by blocks: `first` and `second` on its diagonal.

    The largest matrices stay in blocks, because each assembly copies all entries twice.
    """

    first: Tensor
    between: Tensor
    second: Tensor

    def assembled(self) -> Tensor:
        """Returns the matrix [n, n]."""
        beyond = self.second.shape.as_list()[0]
        upper = tf.pad(self.first, [[0, 0], [0, beyond]])
        return tf.concat([upper, tf.concat([self.between, self.second], axis=1)], axis=0)


def _inverse_root_blocks(matrix: Tensor) -> _Triangular:
    """Returns L⁻¹ of the Cholesky factor L of a positive definite A [n, n] of static size."""
    half = matrix.shape.as_list()[0] // 2
    first = _inverse_root(matrix[:half, :half])
    # The transpose of the block of L below the first.
    beside = tf.matmul(first, matrix[half:, :half], transpose_b=True)
    second = _inverse_root(matrix[half:, half:] - outer_product(beside))
    between = -tf.matmul(second, tf.matmul(beside, first, transpose_a=True))
    return _Triangular(first, between, second)


def _inverse_root(matrix: Tensor) -> Tensor:
    """Returns L⁻¹ as one matrix [n, n]."""
    if matrix.shape.as_list()[0] <= LARGEST_BLOCK:
        identity = identity_like(matrix)
        return tf.linalg.triangular_solve(tf.linalg.cholesky(matrix), identity)
    return typing.cast(Tensor, _assembled_root(matrix))


@shared(sizes=all_sizes)
def _assembled_root(matrix: Tensor) -> Tensor:
    return _inverse_root_blocks(matrix).assembled()


def _gram(root: _Triangular) -> Tensor:
    """Returns WᵀW [n, n], symmetric, of a lower triangular W [n, n] of static size."""
    first = _gram_of_whole(root.first) + symmetrize(outer_product(root.between))
    below = tf.matmul(root.second, root.between, transpose_a=True)
    upper = tf.concat([first, tf.transpose(below)], axis=1)
    return tf.concat([upper, tf.concat([below, _gram_of_whole(root.second)], axis=1)], axis=0)


def _gram_of_whole(root: Tensor) -> Tensor:
    """Returns WᵀW of a W that is one matrix [n, n]."""
    if root.shape.as_list()[0] <= LARGEST_BLOCK:
        return symmetrize(tf.matmul(root, root, transpose_a=True))
    return typing.cast(Tensor, _gram_by_blocks(root))


@shared(sizes=all_sizes)
def _gram_by_blocks(root: Tensor) -> Tensor:
    half = root.shape.as_list()[0] // 2
    return _gram(_Triangular(root[:half, :half], root[half:, :half], root[half:, half:]))


def by_lu(matrix: Tensor, identity: Tensor) -> Tensor:
    """Returns A⁻¹ of a positive definite A [n, n], from its LU decomposition.

    The kernel aborts the step at a zero pivot, and accepts indefinite matrices. So this function
    checks for both first, which makes it the slowest way.
    """
    matrix = symmetrize(matrix)
    _, log_determinant = tf.linalg.slogdet(matrix)
    is_definite = all_finite(tf.linalg.cholesky(matrix))
    usable = tf.logical_and(is_definite, tf.math.is_finite(log_determinant))
    inverse = tf.linalg.inv(tf.where(usable, matrix, identity))
    return _nan_unless(usable, symmetrize(inverse))


def by_newton_schulz(matrix: Tensor, identity: Tensor) -> Tensor:
    """Returns A⁻¹ of a positive definite A [n, n], by products only.

    X ← X + X R, R ← R², from X = I/c and R = I − A/c with c = max_i Σ_j |a_ij|. No eigenvalue of A
    exceeds c, so those of R begin in [0, 1), and each step squares them. X is the inverse after
    about log₂ of the condition number of steps, and a few more. Products suit accelerators, on
    which triangular solutions are slow; on a CPU Cholesky is faster.

    R is not computed anew from X: that would amplify the rounding errors by which X and R do not
    commute. So the result is checked, and fails where ‖I − A X‖ exceeds `LARGEST_RESIDUAL`.
    """
    enough = np.finfo(matrix.dtype.as_numpy_dtype).eps ** 0.5

    def goes_on(step: Tensor, inverse: Tensor, rest: Tensor) -> Tensor:
        del inverse
        return tf.logical_and(step < MOST_STEPS, tf.norm(rest) > enough)

    def improve(step: Tensor, inverse: Tensor, rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        better = symmetrize(inverse + tf.matmul(inverse, rest))
        return step + 1, better, symmetrize(tf.matmul(rest, rest))

    matrix = symmetrize(matrix)
    bound = tf.reduce_max(tf.reduce_sum(tf.abs(matrix), axis=1))
    start = (tf.constant(0), identity / bound, identity - matrix / bound)
    # One more step reduces the error to that of rounding.
    _, found, _ = improve(*tf.while_loop(goes_on, improve, start))
    residual = tf.norm(identity - tf.matmul(matrix, found))
    return _nan_unless(residual <= LARGEST_RESIDUAL, found)


def _nan_unless(condition: Tensor, matrix: Tensor) -> Tensor:
    """Returns a matrix, or NaN."""
    return tf.where(condition, matrix, tf.constant(float("nan"), matrix.dtype))


INVERSIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = types.MappingProxyType(
    {"cholesky": by_cholesky, "lu": by_lu, "newton_schulz": by_newton_schulz}
)
"""The ways by name; each takes A, symmetric but for rounding, and the identity, both [n, n]."""
