"""Factors kept as a symmetric matrix with all its entries, and factors kept as a diagonal.

Owns the damped functions of both kinds, and their updates. Each family defines its second moment.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

from collections.abc import Mapping

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known
from kfac.fisher_factors.kept_functions import KeepingFactor
from kfac.fisher_factors.moving_average import (
    mean_eigenvalue,
    of_average,
    trace_of_diagonal,
    trace_of_matrix,
)
from kfac.fisher_factors.slot import Damping
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import ITSELF, DampedFunction, MatrixFunction
from kfac.linalg.diagonal_power import damped_diagonal_power
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.shared import Reading
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric
from kfac.state import Change


class MatrixFactor(KeepingFactor):
    """A factor that is a symmetric matrix [dimension, dimension], kept with all its entries."""

    keeps_inverses = True

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension, dimension)."""
        return self.dimension, self.dimension

    def packed(self, total: Tensor) -> Tensor:
        """Returns a symmetric matrix in half its size."""
        return pack_symmetric(total)

    def unpacked(self, total: Tensor) -> Tensor:
        """Undoes `packed`."""
        return unpack_symmetric(total, self.dimension)

    def entries_to_check(self, statistic: Tensor) -> Tensor:
        """Returns the diagonal of a second moment.

        A second moment's largest entry lies on its diagonal, and a vector that is not finite makes
        the diagonal not finite. So checking the diagonal is enough.
        """
        return tensor_ops.diagonal(statistic)

    trace = of_average(trace_of_matrix)
    mean_eigenvalue = of_average(mean_eigenvalue, trace_of_matrix)

    def _source(self) -> Tensor | Reading:
        return self.source

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DenseOperator(self.value)

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function of M + d·I; M + d·I itself needs no variable."""
        if function != ITSELF:
            self._functions.register(function, damping)

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I) as of its last update; M + d·I itself is computed now."""
        if function != ITSELF:
            return DenseOperator(self._functions.read(function, damping))
        value = self.value
        damped = tensor_ops.add_to_diagonal(value, tf.cast(damping.value(), value.dtype))
        return DenseOperator(tf.cast(damped, self.inverse_dtype))


class DiagonalFactor(FisherFactor):
    """A factor that is a diagonal matrix, kept as a vector [dimension].

    Its damped functions cost next to nothing, so each read computes them from the current value.
    All of them are powers, because the Cholesky factor of a diagonal matrix is its square root.
    """

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension,)."""
        return (self.dimension,)

    @property
    def inverse_cost(self) -> float:
        """The length of the diagonal."""
        return float(self.dimension)

    trace = of_average(trace_of_diagonal)
    mean_eigenvalue = of_average(mean_eigenvalue, trace_of_diagonal)

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DiagonalOperator(self.value)

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Does nothing: diagonal factors keep no functions."""

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I) in `inverse_dtype`; zero before the first statistic."""
        return DiagonalOperator(self.diagonal_power(function.degree, damping, self.inverse_dtype))

    def diagonal_power(self, exponent: float, damping: Damping, dtype: DType) -> Tensor:
        """Returns the diagonal of (M + d·I)^e, [dimension], in a dtype; zero if not finite.

        Args:
          exponent: e.
          damping: d.
          dtype: A floating-point dtype.
        """
        value = self.value
        return damped_diagonal_power(value, tf.cast(damping.value(), value.dtype), exponent, dtype)

    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """Returns an empty list: diagonal factors keep no functions."""
        return []
