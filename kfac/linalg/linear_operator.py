"""Matrices for multiplication only: dense and diagonal ones behind the same methods.

Factors return them to blocks, so that a block need not know the form in which a factor keeps its
matrix. Plain values: no variables, no devices.
"""

import abc
import dataclasses
import typing

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.linalg.tensor_ops import all_finite_in


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

    _matrix: Tensor

    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X, or Mᵀ X, of X [n, m]."""
        return tf.matmul(self._matrix, matrix, transpose_a=transpose)

    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M, or X Mᵀ, of X [m, n]."""
        return tf.matmul(matrix, self._matrix, transpose_b=transpose)

    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""
        return self._matrix


@typing.final
@dataclasses.dataclass(eq=False)
class DiagonalOperator(LinearOperator):
    """A diagonal matrix of a diagonal [n]."""

    _diagonal: Tensor

    def left(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns M X of X [n, m]; Mᵀ is M."""
        del transpose
        return self._diagonal[:, tf.newaxis] * matrix

    def right(self, matrix: Tensor, transpose: bool = False) -> Tensor:
        """Returns X M of X [m, n]; Mᵀ is M."""
        del transpose
        return matrix * self._diagonal

    def times(self, vector: Tensor, transpose: bool = False) -> Tensor:
        """Returns M x of x [n]; Mᵀ is M."""
        del transpose
        return self._diagonal * vector

    def take(self, indices: Tensor) -> "DiagonalOperator":
        """Returns the diagonal matrix of the entries at `indices` [k]."""
        return DiagonalOperator(tf.gather(self._diagonal, indices))

    def to_dense(self) -> Tensor:
        """Returns M [n, n]."""
        return tf.linalg.diag(self._diagonal)


def damped_diagonal_power(value: Tensor, damping: Tensor, exponent: float, dtype: DType) -> Tensor:
    """Returns the diagonal of (M + d·I)^e, [n], in a dtype; zero if it is not finite.

    `value` is the diagonal of M, [n]; d, shape [], has its dtype.
    """
    damped = value + damping
    power = tf.math.reciprocal(damped) if exponent == -1 else damped**exponent
    power = tf.cast(power, dtype)
    usable = all_finite_in([value, power])
    return tf.math.multiply_no_nan(power, tf.cast(usable, dtype))
