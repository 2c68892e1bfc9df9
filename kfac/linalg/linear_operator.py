"""Products with matrices: dense and diagonal ones behind the same methods, and the cheaper order.

Factors return operators to blocks, so that a block need not know the form in which a factor keeps
its matrix. Plain values: no variables, no devices.

The gradient of a dense layer's weight is a product XᵀD, of its inputs X and the gradients D of its
outputs, one row for each example. If a batch has fewer rows than the layer is wide, multiplying X
and D by the inverses is cheaper than multiplying their product. The user declares nothing: the
graph shows how a gradient is computed. Called by the Kronecker blocks.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §4.2: the product with both inverses.
"""

import abc
import dataclasses
import typing
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Parameters, Tensor
from kfac.linalg.tensor_ops import all_finite, append_homogeneous

v1 = tf.compat.v1


class LinearOperator(abc.ABC):
    """A square matrix M [n, n]."""

    @abc.abstractmethod
    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X, or Mᵀ X, of X [n, m]."""

    @abc.abstractmethod
    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M, or X Mᵀ, of X [m, n]."""

    def times(self, vector: Tensor, transpose: bool = False) -> Tensor:
        """Returns M x, or Mᵀ x, of x [n]."""
        return tf.reshape(self.left(vector[:, tf.newaxis], transpose), [-1])

    @abc.abstractmethod
    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""


@typing.final
@dataclasses.dataclass(eq=False)
class DenseOperator(LinearOperator):
    """A matrix M [n, n] with all its entries."""

    matrix: Tensor

    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X, or Mᵀ X, of X [n, m]."""
        return tf.matmul(self.matrix, matrix, transpose_a=transpose)

    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M, or X Mᵀ, of X [m, n]."""
        return tf.matmul(matrix, self.matrix, transpose_b=transpose)

    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""
        return self.matrix


@typing.final
@dataclasses.dataclass(eq=False)
class DiagonalOperator(LinearOperator):
    """A diagonal matrix of a diagonal [n]."""

    diagonal: Tensor

    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X of X [n, m]; Mᵀ is M."""
        del transpose
        return self.diagonal[:, tf.newaxis] * matrix

    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M of X [m, n]; Mᵀ is M."""
        del transpose
        return matrix * self.diagonal

    def times(self, vector: Tensor, transpose: bool = False) -> Tensor:
        """Returns M x of x [n]; Mᵀ is M."""
        del transpose
        return self.diagonal * vector

    def take(self, indices: Tensor) -> "DiagonalOperator":
        """Returns the diagonal matrix of the entries at `indices` [k]."""
        return DiagonalOperator(tf.gather(self.diagonal, indices))

    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""
        return tf.linalg.diag(self.diagonal)


def damped_diagonal_power(value: Tensor, damping: Tensor, exponent: float, dtype: DType) -> Tensor:
    """Returns the diagonal of (M + d·I)^e, [n], in a dtype; zero if it is not finite.

    `value` is the diagonal of M, [n]; d, shape [], has its dtype.
    """
    damped = value + damping
    power = tf.math.reciprocal(damped) if exponent == -1 else damped**exponent
    power = tf.cast(power, dtype)
    usable = all_finite(value, power)
    return tf.math.multiply_no_nan(power, tf.cast(usable, dtype))


_PASS_ON = ("EnsureShape", "Identity")


class RowProduct(NamedTuple):
    """A matrix V = XᵀD of X [r, m] and D [r, n]."""

    x: Tensor
    d: Tensor


class _Source(NamedTuple):
    """The op that computed a value, and ops that must run before the value is read."""

    op: Operation
    waits_for: list[Operation]


def cheaper_row_product(gradient: Parameters) -> RowProduct | None:
    """Returns X and D of a gradient V = XᵀD if A V G is cheaper as (A Xᵀ)(D G), else None.

    For A [m, m], G [n, n] and r rows this is the case if r(m² + n² + mn) < mn(m + n). V [m, n] is a
    Tensor, or a tuple of all its rows but the last [m − 1, n] and the last [n], which belongs to a
    bias. Returns None also if V is no such product, or if r is not static.
    """
    weight, *bias = (_source(t.op) for t in tf.nest.flatten(gradient))
    op = weight.op
    if op.type != "MatMul" or not op.get_attr("transpose_a") or op.get_attr("transpose_b"):
        return None
    x, d = op.inputs
    if bias and not _is_sum_of_rows(bias[0].op, d):
        return None
    (r, m), (_, n) = (rows.shape.with_rank(2).as_list() for rows in (x, d))
    if None in (r, m, n):
        return None
    m += len(bias)
    if r * (m * m + n * n + m * n) >= m * n * (m + n):
        return None
    waits_for = [op for source in (weight, *bias) for op in source.waits_for]
    with v1.control_dependencies(waits_for):
        return RowProduct(append_homogeneous(x) if bias else tf.identity(x), tf.identity(d))


def _source(op: Operation) -> _Source:
    """Returns the op that computed the value of an op, behind ops that only pass it on."""
    waits_for: list[Operation] = []
    while op.type in _PASS_ON:
        waits_for += op.control_inputs
        op = op.inputs[0].op
    return _Source(op, waits_for)


def _is_sum_of_rows(op: Operation, rows: Tensor) -> bool:
    """Returns True if an op sums all rows [r, n]; the sum [n] may have another shape."""
    if op.type == "Reshape":  # Part of the gradient of a broadcast.
        op = _source(op.inputs[0].op).op
    sums = op.type == "BiasAddGrad" or (op.type == "Sum" and _adds_rows(op))
    return sums and op.inputs[0].name == rows.name


def _adds_rows(op: Operation) -> bool:
    axes = tf.get_static_value(op.inputs[1])
    return axes is not None and axes.ravel().tolist() == [0]
