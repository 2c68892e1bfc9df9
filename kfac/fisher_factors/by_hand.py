"""Damped functions of a factor by their names in tensorflow/kfac, for programs that call them.

K-FAC's own step registers and reads functions of the damped matrix M + d·I as values, and calls
`register` and `operator` only.
"""

import abc

from kfac.fisher_factors.kept import Damping
from kfac.linalg.damped_functions import (
    INVERSE,
    Cholesky,
    CholeskyInverse,
    DampedFunction,
    MatrixFunction,
    Power,
)
from kfac.linalg.linear_operator import LinearOperator


class NamedFunctions(abc.ABC):
    """Functions of M + d·I: any one, as a value, or some by name."""

    @abc.abstractmethod
    def register(self, function: DampedFunction, damping: Damping) -> None:
        """Registers a function f of M + d·I, kept in a variable if it is costly to compute.

        Raises:
          ValueError: The structure of M does not allow it.
        """

    @abc.abstractmethod
    def operator(self, function: MatrixFunction, damping: Damping) -> LinearOperator:
        """Returns f(M + d·I): as of its last update if it is kept, else computed now.

        Raises:
          ValueError: f is not registered, or the structure of M does not allow it.
        """

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
