"""Inverse and Cholesky factors of a damped matrix M + d·I, with a failure policy.

The functions never raise at run time. The first attempt at an inverse, by Cholesky, LU or
Newton–Schulz, has entries that are not finite if it fails. Further attempts, in float64 and each
more costly than the last, run only then. `damped_function` makes them all, returns nothing that is
not finite, and reports the path by which it found the result. Powers, and inverses by
eigendecomposition, are in `kfac.linalg.eigendecomposition`. Called by the damped functions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
  Schulz (1933), "Iterative Berechnung der reziproken Matrix".
  Pan & Schreiber (1991), "An improved Newton iteration for the generalized inverse of a matrix".
"""

import types
import typing
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from kfac._types import Tensor
from kfac.linalg.shared import all_sizes, shared, sizes_above
from kfac.linalg.tensor_ops import (
    add_to_diagonal,
    all_finite,
    identity_like,
    outer_product,
    symmetrize,
)
from kfac.xla import is_compiled

v1 = tf.compat.v1

LARGEST_BLOCK = 320
"""Rows of the largest matrix that is inverted in one piece; larger matrices are halved."""

LARGEST_RESIDUAL = 0.1
"""Largest accepted ‖I − A X‖ of an inverse X found by iteration, in the Frobenius norm."""

MOST_STEPS = 64
"""Number of iterations that is enough for any condition number in float64."""

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


# The first attempt.


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
    checks for both first, which makes it the slowest way. XLA's kernel aborts nothing.
    """
    matrix = symmetrize(matrix)
    usable = all_finite(tf.linalg.cholesky(matrix))
    if not is_compiled():
        _, log_determinant = tf.linalg.slogdet(matrix)
        usable = tf.logical_and(usable, tf.math.is_finite(log_determinant))
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

    XLA has no switches. A function that it compiles tries one Cholesky decomposition after another
    in a loop, which is all of the work of compiling it. The last one, instead of step 4, has ‖M‖ in
    the Frobenius norm added to d, with which no M of finite entries fails.
    """
    usable = tf.logical_and(all_finite(matrix), tf.math.is_finite(tf.math.log(damping)))
    # Some kernels raise on NaN, so an unusable input is replaced before anything is decomposed.
    # The replacement is computed: TensorFlow would store a known one as a constant.
    matrix = tf.math.multiply_no_nan(matrix, tf.cast(usable, matrix.dtype))
    damping = tf.where(usable, damping, tf.ones_like(damping))
    direct = attempts.first(add_to_diagonal(matrix, damping), identity_like(matrix))
    succeeded = tf.logical_and(usable, all_finite(direct))
    none = tf.constant(NO_RARE_PATH, tf.int64)
    if is_compiled():
        results = tf.cond(
            succeeded,
            lambda: (direct, tf.identity(none)),
            lambda: _retry_in_loop(matrix, damping, usable, previous, attempts.from_root),
        )
        return DampedMatrix(*results)
    left = tf.raw_ops.Switch(data=matrix, pred=succeeded).output_false
    retried = retry(left, damping, usable, previous, function=attempts.from_root)
    results = []
    for first, other in zip((direct, none), retried, strict=True):
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


def _retry_in_loop(
    matrix: Tensor, damping: Tensor, usable: Tensor, previous: Tensor, function: RootFunction
) -> tuple[Tensor, Tensor]:
    """Returns the same as `retry`, but for its step 4, by a loop that XLA compiles in little time.

    The path says "eigen" if the last attempt was needed.
    """
    wide, wide_damping = tf.cast(matrix, tf.float64), tf.cast(damping, tf.float64)
    multiples = wide_damping * tf.constant(RETRY_DAMPING_FACTORS, tf.float64)
    tried = tf.concat([multiples, [wide_damping + tf.norm(wide)]], axis=0)
    last = len(RETRY_DAMPING_FACTORS)

    def goes_on(attempt: Tensor, root: Tensor) -> Tensor:
        return tf.logical_and(attempt < last, tf.logical_not(all_finite(root)))

    def decompose(attempt: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
        del root
        return attempt + 1, tf.linalg.cholesky(add_to_diagonal(wide, tried[attempt + 1]))

    start = tf.constant(-1), tf.fill(tf.shape(wide), tf.constant(float("nan"), tf.float64))
    attempt, root = tf.while_loop(goes_on, decompose, start)
    found = tf.cast(function(root, identity_like(wide)), matrix.dtype)
    is_finite = all_finite(found)
    path = tf.cast(tf.stack([usable, attempt == last, tf.logical_not(is_finite)]), tf.int64)
    path = tf.where(usable, path, tf.constant(KEPT, tf.int64))
    return tf.where(tf.logical_and(usable, is_finite), found, previous), path


def _eigen_root(matrix: Tensor, damping: Tensor) -> Tensor:
    """Returns the Cholesky factor of U diag(max(e, 0) + d) Uᵀ, where M = U diag(e) Uᵀ.

    With B = U diag(max(e, 0) + d)^½ the matrix is BBᵀ, and Bᵀ = QR makes it RᵀR.
    """
    values, vectors = tf.linalg.eigh(matrix)
    root = vectors * tf.sqrt(tf.maximum(values, 0) + damping)
    upper = tf.linalg.qr(tf.transpose(root)).r
    return tf.transpose(upper) * tf.sign(tf.raw_ops.MatrixDiagPart(input=upper))
