"""Factors kept as a symmetric matrix with all its entries, and factors kept as a diagonal.

Owns the damped functions of both kinds, and their updates. Each family defines its second moment.
`KeepingFactor` is extended by factors of uncorrelated activations and of chains of uses, too, whose
structure allows only some functions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kfac._types import DType, Operation, Tensor
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known
from kfac.fisher_factors.kept import (
    Damping,
    MatrixSlot,
    OfAverage,
    mean_eigenvalue,
    quotient,
    refresh_slots,
    trace_of_diagonal,
    trace_of_matrix,
)
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE, ITSELF, DampedFunction, MatrixFunction
from kfac.linalg.damped_matrix import INVERSIONS
from kfac.linalg.linear_operator import (
    DenseOperator,
    DiagonalOperator,
    LinearOperator,
    damped_diagonal_power,
)
from kfac.linalg.shared import Reading
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric
from kfac.state import Change, read


class KeepingFactor(FisherFactor):
    """A factor that keeps functions of M + d·I, such as inverses and powers, in variables."""

    def keep(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function to be kept; does nothing if it is registered already."""
        self._slots.setdefault((function, damping.name), MatrixSlot(function, damping))

    def keeps(self, function: DampedFunction) -> bool:
        """Returns True if a function is kept for any damping."""
        return any(slot.function == function for slot in self.inverses)

    def read_kept(self, function: DampedFunction, damping: Damping) -> Tensor:
        """Reads the value of a function's last update.

        Raises:
          ValueError: The function is not registered, or its variables have not been made.
        """
        slot = self._slots.get((function, damping.name))
        if slot is None or slot.matrix is None:
            raise ValueError(
                f"Factor {self.name!r} does not keep {function.name!r} for damping "
                f"{damping.name!r}. Register it before its variables are made."
            )
        return tf.cast(read(slot.matrix), self.product_dtype)

    @property
    def inverse_cost(self) -> float:
        """n³ for each kept function of matrices with n rows."""
        return float(self.dimension) ** 3 * len(self.inverses)

    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """See `FisherFactor.updated_inverses`."""
        variables = tuple(slot.variables for slot in self.inverses)
        of_slots = tuple(dampings[slot.damping.name] for slot in self.inverses)
        matrix = self._matrix_of(averages)
        settings = self._function_settings
        return refresh_slots.function(matrix, variables, of_slots, **settings)

    def refresh(self, dampings: Mapping[str, Tensor], device: str) -> list[Operation]:
        """Returns an op that recomputes all functions; see `FisherFactor.refresh`.

        There is one op for each change if a class has its own part in the computation.
        """
        parts = "updated_inverses", "move_average", "value_of"
        if any(getattr(type(self), x) is not getattr(KeepingFactor, x) for x in parts):
            return super().refresh(dampings, device)
        if not self.inverses:
            return []
        variables = tuple(slot.variables for slot in self.inverses)
        of_slots = tuple(dampings[slot.damping.name] for slot in self.inverses)
        settings = self._function_settings
        return [refresh_slots(self.source, variables, of_slots, device=device, **settings)]

    @property
    def _function_settings(self) -> dict[str, Any]:
        """The functions and other settings of `refresh_slots`."""
        return {
            "functions": tuple(slot.function for slot in self.inverses),
            "method": self._inverse_method(),
            "dtype": self.product_dtype,
        }

    def _inverse_method(self) -> str | None:
        """Returns a key of `INVERSIONS`, or None if inverses use the eigendecomposition."""
        method = self._config.inverse_method
        if method in INVERSIONS:
            return method
        by_eigen = [s.function for s in self.inverses if s.function.uses_eigenvalues]
        has_others = any(function != INVERSE for function in by_eigen)
        shares = has_others or len(by_eigen) >= self._config.eigen_threshold
        return None if method == "eigh" or shares else "cholesky"

    @property
    def source(self) -> Tensor | Reading:
        """The current matrix whose functions are kept, or a reading of it."""
        return self._matrix_of(NOTHING_KNOWN)

    def _matrix_of(self, averages: Known) -> Tensor:
        """Returns the matrix whose functions are kept, of the given average or the current one."""
        return self.value_of(averages)


def unsupported_error(function: object, place: str, known: str, remedy: str) -> ValueError:
    """Returns the error for a function that the structure of a factor or layer does not allow.

    `known` tells the approximation and the functions that it allows, `remedy` the argument of the
    layer's registration that allows more.
    """
    return ValueError(
        f"Cannot compute the {function} of {place}: {known} are known. "
        f"Register the layer with {remedy}."
    )


class MatrixFactor(KeepingFactor):
    """A factor that is a symmetric matrix [dimension, dimension], kept with all its entries."""

    keeps_inverses = True
    trace = OfAverage(trace_of_matrix)
    mean_eigenvalue = OfAverage(mean_eigenvalue, trace_of_matrix)

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension, dimension)."""
        return self.dimension, self.dimension

    @property
    def _is_kept_packed(self) -> bool:
        return self._config.factor_storage == "packed"

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """`cov_shape`, or the shape of `pack_symmetric`."""
        half = (self.dimension + 1) // 2
        return (half, 2 * half + 1) if self._is_kept_packed else self.cov_shape

    def kept_form(self, statistic: Tensor) -> Tensor:
        """Returns a statistic of `cov_shape` in `kept_shape`."""
        return pack_symmetric(statistic) if self._is_kept_packed else statistic

    @property
    def average(self) -> tuple[Any, ...]:
        """See `FisherFactor.average`."""
        is_odd = (self.dimension % 2 == 1,) if self._is_kept_packed else ()
        return *self.cov_variables[:2], *is_odd

    def packed(self, total: Tensor) -> Tensor:
        """Returns a symmetric matrix in half its size."""
        return pack_symmetric(total)

    def unpacked(self, total: Tensor) -> Tensor:
        """Undoes `packed`."""
        return unpack_symmetric(total, self.dimension)

    def entries_to_check(self, statistic: Tensor) -> Tensor:
        """Returns the diagonal of a second moment, on which its largest entry lies.

        A vector that is not finite makes the diagonal not finite, too.
        """
        return tf.raw_ops.MatrixDiagPart(input=statistic)

    @property
    def source(self) -> Tensor | Reading:
        """The value, as an argument of a shared function, which reads S/w by itself."""
        if type(self).value is FisherFactor.value:
            return Reading(quotient, self.average)
        return self.value

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DenseOperator(self.value)

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function of M + d·I; M + d·I itself needs no variable."""
        if function != ITSELF:
            self.keep(function, damping)

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I) as of its last update; M + d·I itself is computed now."""
        if function != ITSELF:
            return DenseOperator(self.read_kept(function, damping))
        value = self.value
        damped = tensor_ops.add_to_diagonal(value, tf.cast(damping.value(), value.dtype))
        return DenseOperator(tf.cast(damped, self.product_dtype))


class DiagonalFactor(FisherFactor):
    """A factor that is a diagonal matrix, kept as a vector [dimension].

    Its damped functions cost next to nothing, so each read computes them from the current value.
    All of them are powers, because the Cholesky factor of a diagonal matrix is its square root.
    """

    trace = OfAverage(trace_of_diagonal)
    mean_eigenvalue = OfAverage(mean_eigenvalue, trace_of_diagonal)

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension,)."""
        return (self.dimension,)

    @property
    def inverse_cost(self) -> float:
        """The length of the diagonal."""
        return float(self.dimension)

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DiagonalOperator(self.value)

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Does nothing: diagonal factors keep no functions."""

    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I) in `product_dtype`; zero before the first statistic."""
        return DiagonalOperator(self.diagonal_power(function.degree, damping, self.product_dtype))

    def diagonal_power(self, exponent: float, damping: Damping, dtype: DType) -> Tensor:
        """Returns the diagonal of (M + d·I)^e, [dimension], in a dtype; zero if not finite."""
        value = self.value
        return damped_diagonal_power(value, tf.cast(damping.value(), value.dtype), exponent, dtype)

    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """Returns an empty list: diagonal factors keep no functions."""
        return []
