"""All functions of one factor's damped matrix that are kept in variables.

Owns the table of slots, and decides if they share one eigendecomposition. `KeepingFactor` is
extended by factors that are matrices, and by those of uncorrelated activations and of chains of
uses, whose structure allows only some functions.
"""

import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import NOTHING_KNOWN, FisherFactor, Known, Sources
from kfac.fisher_factors.slot import Damping, MatrixSlot, compute_changes
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE, DampedFunction, UndampedMatrix
from kfac.linalg.inversion import INVERSIONS, LARGEST_BLOCK
from kfac.linalg.shared import Reading, shared, sizes_above
from kfac.state import Change, assign_all, read


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

        The matrix is M [n, n], or for a chain C₀ and C₁ [2, n, n]. Dampings d have shape [], by
        name.
        """
        return _changes(matrix, *self._slots_and(dampings), **self._settings())

    def refreshed(
        self, matrix: Tensor | Reading, dampings: Mapping[str, Tensor], device: str
    ) -> Operation:
        """Returns an op that computes all functions of one matrix anew; see `updated`.

        Args:
          matrix: M, or a reading of it.
          dampings: Dampings d by name, shape [] each.
          device: Device of the computation.
        """
        known = self._slots_and(dampings)
        return _refresh(matrix, *known, device=device, **self._settings())

    def _slots_and(self, dampings: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], ...]:
        """Returns the variables and the damping of each function."""
        return (
            tuple(slot.variables for slot in self.slots),
            tuple(dampings[slot.damping.name] for slot in self.slots),
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "functions": tuple(slot.function for slot in self.slots),
            "method": self._inverse_method(),
            "dtype": tensor_ops.statistics_dtype(self._dtype),
        }

    def _inverse_method(self) -> str | None:
        """Returns a key of `INVERSIONS`, or None if inverses use the eigendecomposition."""
        method = self._config.inverse_method
        if method in INVERSIONS:
            return method
        by_eigen = [s.function for s in self.slots if s.function.uses_eigenvalues]
        has_others = any(function != INVERSE for function in by_eigen)
        shares = has_others or len(by_eigen) >= self._config.eigen_threshold
        return None if method == "eigh" or shares else "cholesky"


def _changes(
    matrix: Tensor,
    variables: Sequence[tuple[Variable, Variable]],
    dampings: Sequence[Tensor],
    *,
    functions: tuple[DampedFunction, ...],
    method: str | None,
    dtype: DType,
) -> list[Change]:
    """Computes functions of M in a dtype, which may share its eigendecomposition."""
    undamped = UndampedMatrix(tf.cast(matrix, dtype), method)
    each = zip(functions, variables, dampings, strict=True)
    return [change for three in each for change in compute_changes(*three, undamped)]


@shared(sizes=sizes_above(LARGEST_BLOCK))
def _refresh(matrix: Tensor | Reading, *arguments: Any, **settings: Any) -> Operation:
    """Assigns what `_changes` computes."""
    matrix = matrix() if callable(matrix) else matrix
    return assign_all(_changes(matrix, *arguments, **settings))


class KeepingFactor(FisherFactor):
    """A factor that keeps its functions."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refreshes by `updated_inverses` if a class has its own."""
        super().__init_subclass__(**kwargs)
        if "updated_inverses" in vars(cls) and "refresh" not in vars(cls):
            cls.refresh = FisherFactor.refresh  # type: ignore[method-assign]

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

    def keeps(self, function: DampedFunction) -> bool:
        """Returns True if a function is registered for any damping."""
        return any(slot.function == function for slot in self.inverses)

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

    def refresh(self, dampings: Mapping[str, Tensor], device: str) -> list[Operation]:
        """Returns an op that recomputes all registered functions from the current average.

        Args:
          dampings: d by name, shape [] each: at least those of `dampings`.
          device: Device of the active scope.
        """
        if not self.inverses:
            return []
        return [self._functions.refreshed(self._source(), dampings, device)]

    def _source(self) -> Tensor | Reading:
        """Returns the current matrix whose functions are kept, or a reading of it."""
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
