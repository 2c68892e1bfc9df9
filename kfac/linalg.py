"""The matrix algebra of K-FAC as plain functions: no state, no layers, no devices.

Owns the damped inverse and its failure policy, the split of the damping between two Kronecker
factors, second moments of rows, and the map between a layer's parameters and one matrix. Called
by the factors (statistics, inverses) and the blocks (damping, products).

References:
  Martens & Grosse (2015), arXiv:1503.05671.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Parameters, Scalar, Tensor

RETRY_DAMPING_FACTORS = (1.0, 10.0, 100.0, 1000.0)

RARE_PATHS = ("retried", "eigen", "kept")
"""What may happen when a matrix is inverted, beside success at the first attempt."""


class DampedInverse(NamedTuple):
    """An inverse and the path by which it was found.

    Attributes:
      inverse: [n, n], symmetric and finite.
      rare_paths: int64 [3], in the order of `RARE_PATHS`: 1 if the first Cholesky decomposition
        failed; 1 if the eigendecomposition was used; 1 if the previous inverse was kept.
    """

    inverse: Tensor
    rare_paths: Tensor


def as_scalar(value: Scalar, dtype: DType) -> Tensor:
    """Returns a number, Tensor or Variable as a Tensor [] of `dtype`, without losing digits."""
    if isinstance(value, (int, float)):
        return tf.constant(value, dtype)
    return tf.cast(tf.convert_to_tensor(value), dtype)


def static_size(tensor: Tensor, axis: int) -> Any:
    """Returns the size of an axis as an int, or None if it is not known yet.

    Works also where `disable_v2_behavior` has made shapes consist of Dimension objects.
    """
    return tf.compat.dimension_value(tensor.shape[axis])


def statistics_dtype(dtype: DType) -> DType:
    """Returns the dtype to keep second moments in: `dtype`, or float32 for 16-bit types."""
    return tf.float32 if dtype.size < tf.float32.size else dtype


def all_finite(tensor: Tensor) -> Tensor:
    """Returns a bool [], whether every entry of `tensor` is finite."""
    return tf.reduce_all(tf.math.is_finite(tensor))


def symmetrize(matrix: Tensor) -> Tensor:
    """Returns (M + Mᵀ) / 2 of a matrix [n, n]."""
    return 0.5 * (matrix + tf.transpose(matrix))


def append_homogeneous(rows: Tensor) -> Tensor:
    """Appends a column of ones to `rows` [r, n], the input that a bias sees; gives [r, n + 1]."""
    return tf.pad(rows, [[0, 0], [0, 1]], constant_values=1)


def outer_product(rows: Tensor) -> Tensor:
    """Returns XᵀX [n, n] of `rows` X [r, n], exactly symmetric."""
    return symmetrize(tf.matmul(rows, rows, transpose_a=True))


def kronecker_product(left: Tensor, right: Tensor) -> Tensor:
    """Returns left ⊗ right, [n·m, n·m], of matrices [n, n] and [m, m]."""
    product = tf.einsum("ij,kl->ikjl", left, right)
    size = tf.shape(left)[0] * tf.shape(right)[0]
    return tf.reshape(product, [size, size])


def kronecker_damping(
    a_trace: Tensor, a_dim: int, g_trace: Tensor, g_dim: int, damping: Tensor
) -> tuple[Tensor, Tensor]:
    """Splits λ between two Kronecker factors; Martens & Grosse (2015), §6.3.

    π = √((tr A / dim A) / (tr G / dim G)) balances the two error terms. It is 1 where a trace is
    zero, as with outputs that no gradient reached.

    Args:
      a_trace: tr A, shape [].
      a_dim: Rows of A.
      g_trace: tr G, shape [].
      g_dim: Rows of G.
      damping: λ > 0, shape [].

    Returns:
      (π √λ, √λ / π): what to add to the diagonals of A and of G, each of shape [].
    """
    # Two ratios rather than two products: products of small traces underflow in float32.
    a_mean, g_mean = a_trace / a_dim, g_trace / g_dim
    degenerate = tf.logical_or(tf.equal(a_mean, 0), tf.equal(g_mean, 0))
    one = tf.ones_like(a_mean)
    ratio = tf.where(degenerate, one, a_mean) / tf.where(degenerate, one, g_mean)
    pi = tf.sqrt(ratio)
    root = tf.sqrt(damping)
    return root * pi, root / pi


def damped_inverse(matrix: Tensor, damping: Tensor, previous: Tensor) -> DampedInverse:
    """Inverts M + d·I, never raising and never returning anything that is not finite.

    TensorFlow's Cholesky decomposition reports failure by NaN on a CPU, and eigendecompositions
    of NaN abort the step, so inputs and results are checked here. In order:

    1. M, d not finite or d ≤ 0: the previous inverse.
    2. Cholesky in the given precision. This is the whole cost of an ordinary call.
    3. Cholesky in float64 with 1, 10, 100 and 1000 times the damping.
    4. Eigendecomposition in float64, negative eigenvalues set to zero.
    5. The previous inverse.

    Args:
      matrix: M [n, n], symmetric, float32 or float64; positive semi-definite if all is well.
      damping: d, shape [], of the same dtype.
      previous: [n, n], what to return when M cannot be inverted.

    Returns:
      The inverse and which path gave it.
    """
    matrix = symmetrize(matrix)
    identity = tf.eye(static_size(matrix, 0) or tf.shape(matrix)[0], dtype=matrix.dtype)
    usable = tf.reduce_all([all_finite(matrix), all_finite(damping), damping > 0])
    # Some kernels raise on NaN, so an unusable input is replaced before anything is decomposed.
    matrix = tf.where(usable, matrix, identity)
    damping = tf.where(usable, damping, tf.ones_like(damping))
    direct = _cholesky_inverse(matrix + damping * identity, identity)
    failed = tf.logical_not(all_finite(direct))
    wide_damping = tf.cast(damping, tf.float64)
    retry = _retried_inverse(_only_if(failed, matrix), wide_damping, _only_if(failed, identity))
    hopeless = tf.logical_and(failed, tf.logical_not(all_finite(retry)))
    eigen = _eigen_inverse(_only_if(hopeless, matrix), wide_damping)
    inverse = _replace_if(failed, direct, retry)
    inverse = _replace_if(hopeless, inverse, eigen)
    good = tf.logical_and(usable, all_finite(inverse))
    taken = tf.stack([failed, hopeless, tf.logical_not(good)])
    return DampedInverse(tf.where(good, inverse, previous), tf.cast(taken, tf.int64))


def _cholesky_inverse(matrix: Tensor, identity: Tensor) -> Tensor:
    """Returns the inverse, with NaN entries if the matrix is not numerically positive."""
    return symmetrize(tf.linalg.cholesky_solve(tf.linalg.cholesky(matrix), identity))


def _only_if(condition: Tensor, matrix: Tensor) -> Tensor:
    """Returns the matrix [n, n], or if it is not needed its first entry [1, 1], in float64.

    So a decomposition that is not needed costs nothing. A conditional branch would do the same,
    but several for each factor make building the graph many times slower.
    """
    size = tf.where(condition, tf.shape(matrix), [1, 1])
    return tf.cast(tf.slice(matrix, [0, 0], size), tf.float64)


def _replace_if(condition: Tensor, matrix: Tensor, other: Tensor) -> Tensor:
    """Returns `other` in the dtype of `matrix` [n, n] if `condition` holds, else `matrix`.

    Undoes `_only_if`: `other` is [n, n] if the condition holds, and [1, 1] if not.
    """
    missing = (tf.shape(matrix) - tf.shape(other))[:, tf.newaxis] * [[0, 1]]
    padded = tf.pad(tf.cast(other, matrix.dtype), missing)
    return tf.where(condition, tf.ensure_shape(padded, matrix.shape), matrix)


def _retried_inverse(matrix: Tensor, damping: Tensor, identity: Tensor) -> Tensor:
    """Returns (M + f·d·I)⁻¹ for the smallest f of `RETRY_DAMPING_FACTORS` for which it is finite.

    If there is none it has entries that are not finite.
    """
    factors = tf.constant(
        RETRY_DAMPING_FACTORS, matrix.dtype, shape=[len(RETRY_DAMPING_FACTORS), 1, 1]
    )
    roots = tf.linalg.cholesky(matrix + damping * factors * identity)
    succeeded = tf.reduce_all(tf.math.is_finite(roots), axis=[1, 2])
    # argmax finds the first success, or 0 if there is none.
    root = tf.gather(roots, tf.argmax(tf.cast(succeeded, tf.int32)))
    return symmetrize(tf.linalg.cholesky_solve(root, identity))


def _eigen_inverse(matrix: Tensor, damping: Tensor) -> Tensor:
    """Returns U diag(1 / (max(e, 0) + d)) Uᵀ of M = U diag(e) Uᵀ."""
    eigenvalues, vectors = tf.linalg.eigh(matrix)
    scale = 1.0 / (tf.maximum(eigenvalues, 0.0) + damping)
    return symmetrize(tf.matmul(vectors * scale, vectors, transpose_b=True))


def layer_params_to_mat2d(params: Parameters) -> Tensor:
    """Returns a layer's parameters, or anything of their shapes, as one matrix.

    Args:
      params: A weight [..., outputs], or a tuple (weight, bias [outputs]).

    Returns:
      [inputs, outputs], the leading axes of the weight flattened in row-major order, with the
      bias as an extra last row.
    """
    if not isinstance(params, (tuple, list)):
        return tf.reshape(params, [-1, params.shape[-1]])
    weight, bias = params
    matrix = tf.reshape(weight, [-1, weight.shape[-1]])
    return tf.concat([matrix, tf.reshape(bias, [1, -1])], axis=0)


def mat2d_to_layer_params(template: Parameters, matrix: Tensor) -> Parameters:
    """Undoes `layer_params_to_mat2d`.

    Args:
      template: A weight or (weight, bias) whose static shapes the result takes.
      matrix: [inputs, outputs], with the bias as last row if the template has one.

    Returns:
      Tensor, or (Tensor, Tensor), shaped as the template.
    """
    if not isinstance(template, (tuple, list)):
        return tf.reshape(matrix, template.shape)
    weight, bias = template
    return tf.reshape(matrix[:-1], weight.shape), tf.reshape(matrix[-1], bias.shape)
