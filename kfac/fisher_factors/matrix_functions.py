"""All functions of one factor's damped matrix that are kept in variables.

Owns the table of slots, and the choice of one eigendecomposition for several of them. Called by
factors that keep a matrix.
"""

import typing
from collections.abc import Mapping

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.slot import Damping, MatrixSlot, Request
from kfac.linalg import tensor_ops
from kfac.linalg.damped_matrix import eigendecompose
from kfac.linalg.inversion import INVERSIONS
from kfac.state import Change


@typing.final
class MatrixFunctions:
    """Functions of M + d·I, such as inverses and powers, each in a variable."""

    def __init__(self, factor: str, config: CurvatureConfig, dtype: DType) -> None:
        """Registers nothing yet.

        Args:
          factor: Name of the factor, for errors.
          config: Says how to invert.
          dtype: Dtype of the variables.
        """
        self._factor = factor
        self._config = config
        self._dtype = dtype
        self._slots: dict[Request, MatrixSlot] = {}

    @property
    def slots(self) -> tuple[MatrixSlot, ...]:
        """All registered functions, in order of registration."""
        return tuple(self._slots.values())

    def register(self, request: Request, damping: Damping) -> None:
        """Registers a function; does nothing if it is registered already."""
        self._slots.setdefault(request, MatrixSlot(request, damping))

    def read(self, request: Request) -> Tensor:
        """Reads a function as of its last update.

        Raises:
          ValueError: It is not registered, or its variables have not been made.
        """
        slot = self._slots.get(request)
        if slot is None or not slot.variables:
            raise ValueError(
                f"Factor {self._factor!r} does not keep {request.leaf!r} for damping "
                f"{request.damping!r}. Register it before its variables are made."
            )
        return slot.read()

    def updated(self, matrix: Tensor, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all functions of one matrix; returns the changes of their variables.

        Some of them may share an eigendecomposition of the matrix.

        Args:
          matrix: M [n, n], or for a chain C₀ and C₁ [2, n, n].
          dampings: d by name, shape [] each.
        """
        chosen = self._config.inverse_method
        method = chosen if chosen in INVERSIONS else "cholesky"
        by_eigen = [slot for slot in self.slots if self._uses_eigen(slot.request)]
        changes: dict[MatrixSlot, list[Change]] = {}
        if by_eigen:
            dtype = tensor_ops.statistics_dtype(self._dtype)
            eigen = eigendecompose(tf.cast(matrix, dtype))
            changes = {slot: slot.updated_by_eigen(eigen, dampings) for slot in by_eigen}
        for slot in self.slots:
            if slot not in changes:
                changes[slot] = slot.updated(matrix, dampings, method)
        return [change for slot in self.slots for change in changes[slot]]

    def _uses_eigen(self, request: Request) -> bool:
        """Returns whether a function is computed from the eigendecomposition of the matrix."""
        method = self._config.inverse_method
        if request.kind != "power" or (request.exponent == -1 and method in INVERSIONS):
            return False
        exponents = [s.request.exponent for s in self.slots if s.request.kind == "power"]
        has_others = any(e != -1 for e in exponents)
        return method == "eigh" or has_others or len(exponents) >= self._config.eigen_threshold
