"""The factor of tensorflow/kfac: an update for each factor, and a name for each function.

Programs that update factors by themselves use it. K-FAC's own step updates several factors at once,
and registers and reads functions of the damped matrix M + d·I as values. Of the methods here it
calls `fold` and `read_weight` only, which a program's own factor may replace.
"""

import abc
from collections.abc import Mapping

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.fisher_factors.moving_average import MovingAverage
from kfac.fisher_factors.slot import Damping, MatrixSlot, current_dampings
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import (
    INVERSE,
    Cholesky,
    CholeskyInverse,
    DampedFunction,
    MatrixFunction,
    Power,
)
from kfac.linalg.linear_operator import LinearOperator
from kfac.state import group


class FactorByHand(abc.ABC):
    """The methods of a factor that programs of tensorflow/kfac call.

    Attributes:
      average: The moving average of the statistic.
    """

    average: MovingAverage

    @property
    @abc.abstractmethod
    def value(self) -> Tensor:
        """The moving average, read now."""

    @property
    @abc.abstractmethod
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """The registered functions that are kept in variables, in order of registration."""

    @abc.abstractmethod
    def batch_statistic(self) -> Tensor:
        """Returns the second moment of this batch."""

    @abc.abstractmethod
    def entries_to_check(self, statistic: Tensor) -> Tensor:
        """Returns entries of a statistic; if these are finite, all are."""

    @abc.abstractmethod
    def refresh(self, dampings: Mapping[str, Tensor], device: str) -> list[Operation]:
        """Returns ops that recompute all registered functions from the current averages."""

    @abc.abstractmethod
    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function f of M + d·I."""

    @abc.abstractmethod
    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I)."""

    def register_matpower(self, exponent: float, damping: Damping) -> None:
        """Registers (M + d·I)^e."""
        self.register(Power(exponent), damping)

    def register_inverse(self, damping: Damping) -> None:
        """Registers (M + d·I)⁻¹."""
        self.register(INVERSE, damping)

    def register_cholesky(self, damping: Damping) -> None:
        """Registers the lower triangular L with LLᵀ = M + d·I."""
        self.register(Cholesky(), damping)

    def register_cholesky_inverse(self, damping: Damping) -> None:
        """Registers L⁻¹."""
        self.register(CholeskyInverse(), damping)

    def get_matpower(self, exponent: float, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)^e as of its last update; for e = 1 computed now."""
        return self.operator(Power(exponent), damping)

    def get_inverse(self, damping: Damping) -> LinearOperator:
        """Returns (M + d·I)⁻¹ as of its last update."""
        return self.operator(INVERSE, damping)

    def get_cholesky(self, damping: Damping) -> LinearOperator:
        """Returns L as of its last update."""
        return self.operator(Cholesky(), damping)

    def get_cholesky_inverse(self, damping: Damping) -> LinearOperator:
        """Returns L⁻¹ as of its last update."""
        return self.operator(CholeskyInverse(), damping)

    @property
    def cov(self) -> Tensor:
        """The same as `value`."""
        return self.value

    def get_cov_vars(self) -> list[Tensor]:
        """Returns the moving averages, read now; NaN before the first update."""
        return [self.value]

    def get_inv_vars(self) -> list[Variable]:
        """Returns the matrix variables of all registered functions, in order of registration."""
        return [slot.matrix for slot in self.inverses]

    def is_finite(self, statistic: Tensor) -> Tensor:
        """Returns bool [], true if every entry of a statistic of `cov_shape` is finite."""
        return tensor_ops.all_finite(self.entries_to_check(statistic))

    def read_weight(self) -> Tensor:
        """Reads w, the weight of all that is in the average, shape []; zero at first."""
        return self.average.read_weight()

    def fold(
        self, statistic: Tensor, accept: Tensor, ema_decay: Scalar, ema_weight: Scalar = 1.0
    ) -> Operation:
        """Returns an op that folds a batch into the average.

        Args:
          statistic: C of `cov_shape`.
          accept: bool []; if false, the batch is counted as refused and changes nothing else.
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        return self.average.fold(statistic, accept, ema_decay, ema_weight)

    def make_covariance_update_op(self, ema_decay: Scalar, ema_weight: Scalar = 1.0) -> Operation:
        """Returns an op that folds this batch into the average, if its statistic is finite.

        Args:
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this batch.
        """
        statistic = self.batch_statistic()
        accept = self.is_finite(statistic)
        return self.fold(statistic, accept, ema_decay, ema_weight)

    def make_inverse_update_ops(self) -> list[Operation]:
        """Returns one op that recomputes all registered functions from the value."""
        dampings = current_dampings(slot.damping for slot in self.inverses)
        return [group(*self.refresh(dampings, ""))]
