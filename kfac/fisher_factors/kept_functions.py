"""All functions of one factor's damped matrix that are kept in variables.

Owns the table of slots, and decides if they share one eigendecomposition. `KeepingFactor` is
extended by factors that are matrices, and by those of uncorrelated activations and of chains of
uses, whose structure allows only some functions.
"""

import typing
from collections.abc import Mapping

import tensorflow as tf

from kfac._types import DType, Operation, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known, Sources
from kfac.fisher_factors.slot import Damping, MatrixSlot
from kfac.fisher_factors.stored_average import StoredAverage
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE, DampedFunction, UndampedMatrix
from kfac.linalg.inversion import INVERSIONS
from kfac.state import Change, read


@typing.final
class KeptFunctions:
    """Functions of M + d·I, such as inverses and powers, each in a variable of `dtype`.

    `factor` names the factor in errors.
    """

    def __init__(self, factor: str, config: CurvatureConfig, dtype: DType) -> None:
        self._factor = factor
        self._config = config
        self._dtype = dtype
        self._slots: dict[tuple[DampedFunction, str], MatrixSlot] = {}

    @property
    def slots(self) -> tuple[MatrixSlot, ...]:
        """All registered functions, in order of registration."""
        return tuple(self._slots.values())

    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function; does nothing if it is registered already."""
        self._slots.setdefault((function, damping.name), MatrixSlot(function, damping))

    def read(self, function: DampedFunction, damping: Damping) -> Tensor:
        """Reads the value of a function's last update.

        Raises:
          ValueError: The function is not registered, or its variables have not been made.
        """
        slot = self._slots.get((function, damping.name))
        if slot is None or slot.matrix is None:
            raise ValueError(
                f"Factor {self._factor!r} does not keep {function.name!r} for damping "
                f"{damping.name!r}. Register it before its variables are made."
            )
        return read(slot.matrix)

    def updated(self, matrix: Tensor, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all functions of one matrix; returns the changes of their variables.

        The matrix is M [n, n], or for a chain C₀ and C₁ [2, n, n]. Several functions may share its
        eigendecomposition. Dampings d have shape [], by name.
        """
        wide = tf.cast(matrix, tensor_ops.statistics_dtype(self._dtype))
        undamped = UndampedMatrix(wide, self._inverse_method())
        return [change for slot in self.slots for change in slot.updated(undamped, dampings)]

    def updates_from(
        self, average: StoredAverage, dampings: Mapping[str, Tensor]
    ) -> list[Operation] | None:
        """Returns ops that compute all functions of M = S/w anew, one for each.

        All variables are together. Returns None if functions share an eigendecomposition.

        Args:
          average: S [n, n] and w.
          dampings: Dampings d by name, shape [] each.
        """
        dtype, method = tensor_ops.statistics_dtype(self._dtype), self._inverse_method()
        attempts = [slot.function.attempts(method) for slot in self.slots]
        known = [each for each in attempts if each is not None]
        if len(known) < len(attempts):
            return None
        return [
            slot.update_from(average, each, dampings, dtype)
            for slot, each in zip(self.slots, known, strict=True)
        ]

    def _inverse_method(self) -> str | None:
        """Returns a key of `INVERSIONS`, or None if inverses use the eigendecomposition."""
        method = self._config.inverse_method
        if method in INVERSIONS:
            return method
        by_eigen = [s.function for s in self.slots if s.function.uses_eigenvalues]
        has_others = any(function != INVERSE for function in by_eigen)
        shares = has_others or len(by_eigen) >= self._config.eigen_threshold
        return None if method == "eigh" or shares else "cholesky"


class KeepingFactor(FisherFactor):
    """A factor that keeps its functions."""

    def __init__(
        self,
        tensors: Sources,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._functions = KeptFunctions(name, self._config, self.inverse_dtype)

    @property
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """All registered functions, in order of registration."""
        return self._functions.slots

    @property
    def inverse_cost(self) -> float:
        """n³ for each kept function of matrices with n rows."""
        return float(self.dimension) ** 3 * len(self.inverses)

    def updated_inverses(
        self, dampings: Mapping[str, Tensor], averages: Known = NOTHING_KNOWN
    ) -> list[Change]:
        """Computes all registered functions; returns the changes of `inv_variables`.

        Args:
          dampings: d by name, shape [] each: at least those of `dampings`.
          averages: Values of averages by the factor's name.
        """
        return self._functions.updated(self._matrix_of(averages), dampings)

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
