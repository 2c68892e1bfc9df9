"""Small tensor functions for all of K-FAC: scalars, dtypes, second moments of rows.

No state, no layers.
"""

import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.linalg.shared import last_size, shared

v1 = tf.compat.v1

LARGEST_PRODUCT = 256
"""Size of the largest symmetric product that is computed whole, rather than by triangles."""

FEWEST_ROWS = 192
"""Smallest number of rows for which computing a product by triangles is faster."""


def as_scalar(value: Scalar, dtype: DType) -> Tensor:
    """Returns a number, Tensor, Variable or function of none, as a Tensor [] of `dtype`."""
    if callable(value):
        value = value()
    if isinstance(value, (int, float)):
        return tf.constant(value, dtype)
    return tf.cast(tf.convert_to_tensor(value), dtype)


def known_or_scalars(values: Sequence[Scalar], dtype: DType) -> list[Any]:
    """Returns numbers if all the values are, or functions that return such; else Tensors [].

    Arithmetic with numbers makes no operations.
    """
    found = [value() if callable(value) else value for value in values]
    if all(isinstance(value, (int, float)) for value in found):
        return found
    return [as_scalar(value, dtype) for value in found]


def static_size(tensor: Tensor, axis: int) -> Any:
    """Returns the size of an axis as an int, or None if it is not known yet.

    Also works if `disable_v2_behavior` has made shapes consist of Dimension objects.
    """
    return tf.compat.dimension_value(tensor.shape[axis])


def num_rows(tensor: Tensor) -> Scalar:
    """Returns the size of the first axis: an int if it is static, else int32 []."""
    size = tf.compat.dimension_value(tensor.shape[0])
    return tf.shape(tensor)[0] if size is None else size


def with_shape(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns a Tensor with a static shape; checks it at run time if it is not known before."""
    is_known = tensor.shape.is_fully_defined() and tensor.shape == tf.TensorShape(shape)
    return tensor if is_known else tf.ensure_shape(tensor, shape)


def statistics_dtype(dtype: DType) -> DType:
    """Returns the dtype to keep second moments in: `dtype`, or float32 for 16-bit types."""
    return tf.float32 if dtype.size < tf.float32.size else dtype


def all_finite(*tensors: Tensor) -> Tensor:
    """Returns bool [], true if every entry of all tensors is finite; there is at least one.

    It is computed where the tensors are. Vectors, which are small, are checked together if device
    and dtype are the same. The flags meet where the first tensor is.
    """
    groups: dict[Any, list[Tensor]] = {}
    for index, tensor in enumerate(tensors):
        is_vector = tensor.shape.rank == 1
        key = (tensor.device, tensor.dtype) if is_vector else index
        groups.setdefault(key, []).append(tensor)
    flags = []
    for parts in groups.values():
        with v1.device(parts[0].device):
            finite = tf.math.is_finite(tf.concat(parts, axis=0) if len(parts) > 1 else parts[0])
            flags.append(finite if finite.shape.rank == 0 else tf.reduce_all(finite))
    return all_true(flags)


def has_first_column(matrix: Tensor) -> Tensor:
    """Returns bool [], true unless the first column of a matrix [n, m] is zero."""
    return tf.reduce_any(tf.not_equal(matrix[:, 0], 0))


def all_true(conditions: Sequence[Tensor]) -> Tensor:
    """Returns bool [], true if all of the given bool [] are, or if there are none.

    It is computed where the first one is.
    """
    if not conditions:
        return tf.constant(True)
    if len(conditions) == 1:
        return conditions[0]
    with v1.device(conditions[0].device):
        return tf.reduce_all(tf.stack(list(conditions)))


def sums() -> Callable[[Tensor], Tensor]:
    """Returns a function that adds all entries of Tensors [...]. Those of equal rank share axes."""
    made: dict[tuple[int, str], Tensor] = {}

    def sum_of(tensor: Tensor) -> Tensor:
        key = tensor.shape.rank, tensor.device
        if key[0] is None:
            return tf.reduce_sum(tensor)
        if key not in made:
            made[key] = tf.constant(list(range(key[0])), tf.int32)
        return tf.reduce_sum(tensor, axis=made[key])

    return sum_of


def choose(condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Returns one of two Tensors of the same shape as a whole, by a bool [].

    Copies nothing, unlike `tf.where`, which goes through all entries.
    """
    return v1.where(condition, chosen, other)


def symmetrize(matrix: Tensor) -> Tensor:
    """Returns (M + Mᵀ) / 2 of matrices [..., n, n]."""
    return 0.5 * (matrix + tf.linalg.matrix_transpose(matrix))


def add_in_order(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the sum of tensors of one shape, rounded equally in each run.

    `add_n` begins with the first operand whose memory it may reuse, and that depends on the timing
    of other readers. So the first operand is a copy that nothing else reads.
    """
    with v1.get_default_graph().gradient_override_map({"Snapshot": "Identity"}):
        first = tf.raw_ops.Snapshot(input=tensors[0])
    return tf.add_n([first, *tensors[1:]])


def identity_like(matrix: Tensor) -> Tensor:
    """Returns the identity of the size and dtype of a matrix [n, n]."""
    size = matrix.shape.as_list()[0] or tf.shape(matrix)[0]
    return tf.raw_ops.MatrixDiag(diagonal=tf.ones([size], matrix.dtype))


def diagonal(matrix: Tensor) -> Tensor:
    """Returns the diagonals [..., n] of matrices [..., n, n].

    Does not use `tf.linalg.diag_part`: its GPU kernel takes a number from the memory of the CPU.
    """
    return tf.raw_ops.MatrixDiagPart(input=matrix)


def add_to_diagonal(matrix: Tensor, value: Tensor) -> Tensor:
    """Returns M + d·I of a matrix [n, n] and d [], without making I."""
    diagonal = tf.raw_ops.MatrixDiagPart(input=matrix)
    return tf.raw_ops.MatrixSetDiag(input=matrix, diagonal=diagonal + value)


def append_homogeneous(rows: Tensor) -> Tensor:
    """Appends a 1, the input that a bias sees, to each row of `rows` [..., n]."""
    # A GPU's kernel takes it from the memory of the CPU, and would wait for a copy.
    with v1.control_dependencies(None), v1.device("/device:CPU:0"):
        one = tf.constant(1, rows.dtype)
    paddings = [[0, 0]] * (rows.shape.rank - 1) + [[0, 1]]
    return tf.pad(rows, paddings, constant_values=one)


def outer_product(rows: Tensor) -> Tensor:
    """Returns XᵀX [n, n] of `rows` X [r, n], symmetric but for rounding.

    A large product is cut into quarters, one of which is the transpose of another. The quarters on
    the diagonal are cut again. Rare consumers that need exact symmetry, such as decompositions,
    symmetrize it themselves.
    """
    count, size = rows.shape.as_list()
    if size is None or size <= LARGEST_PRODUCT or (count or FEWEST_ROWS) < FEWEST_ROWS:
        return tf.matmul(rows, rows, transpose_a=True)
    return typing.cast(Tensor, _product_by_quarters(rows))


def kronecker_product(left: Tensor, right: Tensor) -> Tensor:
    """Returns left ⊗ right, [n·m, n·m], of matrices [n, n] and [m, m]."""
    product = tf.einsum("ij,kl->ikjl", left, right)
    size = tf.shape(left)[0] * tf.shape(right)[0]
    return tf.reshape(product, [size, size])


@shared(sizes=last_size)
def _product_by_quarters(rows: Tensor) -> Tensor:
    half = -(-rows.shape.as_list()[1] // 32) * 16
    first, second = rows[:, :half], rows[:, half:]
    below = tf.matmul(second, first, transpose_a=True)
    upper = tf.concat([outer_product(first), tf.transpose(below)], axis=1)
    return tf.concat([upper, tf.concat([below, outer_product(second)], axis=1)], axis=0)
