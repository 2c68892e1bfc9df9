"""Factors that keep a symmetric matrix with all its entries, and those that keep its diagonal.

What can be asked of such a factor when it is damped, and how it is kept up to date. Which second
moment it is, is the families' business.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.slot import Damping, MatrixSlot, Request
from kfac.linalg import tensor_ops
from kfac.linalg.damped_matrix import eigendecompose
from kfac.linalg.inversion import INVERSIONS
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.symmetric_packing import pack_symmetric, unpack_symmetric
from kfac.state import Change, read


class SlotFactor(FisherFactor):
    """A factor that keeps functions of its damped matrix in variables."""

    def __init__(
        self,
        tensors: Sources,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables and checks no shapes yet.

        Args:
          tensors: What the statistic is made from, by [source][tower].
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config)
        self._slots: dict[Request, MatrixSlot] = {}

    @property
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """All that is registered, in order of registration."""
        return tuple(self._slots.values())

    @property
    @abc.abstractmethod
    def _slot_size(self) -> int:
        """Rows of the matrix whose functions are kept."""

    def instantiate_inv_variables(self, device: str = "") -> None:
        """Makes the variables of all that is registered, once, on `device`."""
        for slot in self.inverses:
            slot.make_variables(self._slot_shape(slot.request), self.inverse_dtype, device)

    def _slot_shape(self, request: Request) -> list[int]:
        """Shape in which a function of the matrix is kept."""
        del request
        return [self._slot_size, self._slot_size]

    @property
    def inverse_cost(self) -> float:
        """n³ for each function that is kept of a matrix with n rows."""
        return float(self._slot_size) ** 3 * len(self.inverses)

    def _register(self, request: Request, damping: Damping) -> None:
        self._slots.setdefault(request, MatrixSlot(request, damping))

    def _read_slot(self, request: Request) -> Tensor:
        slot = self._slots.get(request)
        if slot is None or not slot.variables:
            raise ValueError(
                f"Factor {self.name!r} does not keep {request.leaf!r} for damping "
                f"{request.damping!r}. Register it before its variables are made."
            )
        return slot.read()

    def _updated_slots(self, matrix: Tensor, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all slots from one matrix; some may share an eigendecomposition of it."""
        chosen = self._config.inverse_method
        method = chosen if chosen in INVERSIONS else "cholesky"
        by_eigen = [slot for slot in self.inverses if self._uses_eigen(slot.request)]
        changes: dict[MatrixSlot, list[Change]] = {}
        if by_eigen:
            dtype = tensor_ops.statistics_dtype(self.inverse_dtype)
            eigen = eigendecompose(tf.cast(matrix, dtype))
            changes = {slot: slot.updated_by_eigen(eigen, dampings) for slot in by_eigen}
        for slot in self.inverses:
            if slot not in changes:
                changes[slot] = slot.updated(matrix, dampings, method)
        return [change for slot in self.inverses for change in changes[slot]]

    def _uses_eigen(self, request: Request) -> bool:
        """Whether a function is computed from the eigendecomposition of the matrix."""
        method = self._config.inverse_method
        if request.kind != "power" or (request.exponent == -1 and method in INVERSIONS):
            return False
        exponents = [s.request.exponent for s in self.inverses if s.request.kind == "power"]
        has_others = any(e != -1 for e in exponents)
        return method == "eigh" or has_others or len(exponents) >= self._config.eigen_threshold


class MatrixFactor(SlotFactor):
    """A factor that is a symmetric matrix [dimension, dimension]."""

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension, dimension)."""
        return self.dimension, self.dimension

    @property
    def _slot_size(self) -> int:
        return self.dimension

    @property
    def keeps_inverses(self) -> bool:
        """True."""
        return True

    def _pack(self, total: Tensor) -> Tensor:
        return pack_symmetric(total)

    def _unpack(self, total: Tensor) -> Tensor:
        return unpack_symmetric(total, self.dimension)

    def is_finite(self, statistic: Tensor) -> Tensor:
        """Returns whether every entry of a second moment is finite, bool [].

        None is larger than the largest of the diagonal, and what is not finite in a vector is not
        finite on the diagonal either. So there is no need to look at the others.
        """
        return tensor_ops.all_finite(tensor_ops.diagonal(statistic))

    def trace(self) -> Tensor:
        """Returns the trace of the value, read now; shape []."""
        total, weight, _ = self._average
        return tf.reduce_sum(tensor_ops.diagonal(read(total))) / read(weight)

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DenseOperator(self.value)

    def register_matpower(self, exponent: float, damping: Damping) -> None:
        """Asks for (M + d·I)^e to be kept; for e = 1 there is nothing to keep."""
        if exponent != 1:
            self._register(Request(damping.name, "power", float(exponent)), damping)

    def register_cholesky(self, damping: Damping) -> None:
        """Asks for the lower triangular L with LLᵀ = M + d·I to be kept."""
        self._register(Request(damping.name, "cholesky"), damping)

    def register_cholesky_inverse(self, damping: Damping) -> None:
        """Asks for L⁻¹ to be kept."""
        self._register(Request(damping.name, "cholesky_inverse"), damping)

    def get_matpower(self, exponent: float, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^e as of its last update; for e = 1 as of now."""
        if exponent == 1:
            value = self.value
            damped = tensor_ops.add_to_diagonal(value, tf.cast(damping.value(), value.dtype))
            return DenseOperator(damped)
        return DenseOperator(self._read_slot(Request(damping.name, "power", float(exponent))))

    def get_cholesky(self, damping: Damping) -> LinearOperator:
        """Returns L as of its last update."""
        return DenseOperator(self._read_slot(Request(damping.name, "cholesky")))

    def get_cholesky_inverse(self, damping: Damping) -> LinearOperator:
        """Returns L⁻¹ as of its last update."""
        return DenseOperator(self._read_slot(Request(damping.name, "cholesky_inverse")))

    def updated_inverses(self, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes all that is registered; returns the changes of `get_inv_vars()`.

        Args:
          dampings: By name; `dampings` among them.
        """
        return self._updated_slots(self.value, dampings)


class NoCholeskyFactor(SlotFactor):
    """A factor of a structure whose Cholesky factor is not known."""

    _limitation: str
    """What is known instead, for messages."""

    _remedy: str
    """How to register the layer to have more, for messages."""

    def _unsupported(self, what: str) -> ValueError:
        return ValueError(
            f"Cannot compute the {what} of factor {self.name!r}: {self._limitation} are known. "
            f"Register the layer with {self._remedy}."
        )

    def register_cholesky(self, damping: Damping) -> None:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def register_cholesky_inverse(self, damping: Damping) -> None:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def get_cholesky(self, damping: Damping) -> LinearOperator:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def get_cholesky_inverse(self, damping: Damping) -> LinearOperator:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")


class DiagonalFactor(FisherFactor):
    """A factor that is a diagonal matrix, kept as a vector [dimension].

    Its damped functions cost nothing, so they are computed when asked for, from the live value.
    The Cholesky factor of a diagonal matrix is its square root.
    """

    @property
    def cov_shape(self) -> tuple[int, ...]:
        """(dimension,)."""
        return (self.dimension,)

    @property
    def inverse_cost(self) -> float:
        """The length of the diagonal."""
        return float(self.dimension)

    def trace(self) -> Tensor:
        """Returns the trace of the matrix, read now; shape []."""
        return tf.reduce_sum(self.value)

    def get_cov_as_linear_operator(self) -> LinearOperator:
        """Returns the undamped matrix, read now."""
        return DiagonalOperator(self.value)

    def register_matpower(self, exponent: float, damping: Damping) -> None:
        """Does nothing: there is nothing to keep."""

    def register_cholesky(self, damping: Damping) -> None:
        """Does nothing: there is nothing to keep."""

    def register_cholesky_inverse(self, damping: Damping) -> None:
        """Does nothing: there is nothing to keep."""

    def get_matpower(self, exponent: float, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^e; zero before the first statistic."""
        value = self.value
        power = (value + tf.cast(damping.value(), value.dtype)) ** exponent
        usable = tf.logical_and(tensor_ops.all_finite(value), tensor_ops.all_finite(power))
        return DiagonalOperator(tf.where(usable, power, tf.zeros_like(power)))

    def get_cholesky(self, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^½."""
        return self.get_matpower(0.5, damping)

    def get_cholesky_inverse(self, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^(−½)."""
        return self.get_matpower(-0.5, damping)

    def instantiate_inv_variables(self, device: str = "") -> None:
        """Does nothing: there is nothing to keep."""

    def updated_inverses(self, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Returns nothing: there is nothing to keep."""
        return []


class RowFactor(MatrixFactor):
    """XᵀX / rows of rows X that are made of each tower's tensors."""

    @abc.abstractmethod
    def rows(self, tensors: Any) -> Tensor:
        """Turns one tower's tensors into the rows [r, dimension] whose second moment is meant."""

    def _tower_moment(self, tensors: Any) -> Moment:
        rows = tf.cast(self.rows(tensors), self.dtype)
        return Moment(tensor_ops.outer_product(rows), tf.shape(rows)[0])
