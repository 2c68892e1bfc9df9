"""Functions of a damped matrix M + d·I as values: each knows its name and how it is computed.

A new function is one class, here or elsewhere. Factors keep it; blocks and estimators multiply by
it. The algebra is in
`kfac.linalg.damped_matrix`, with the failure policy, and in `eigendecomposition`.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
"""

import abc
import dataclasses
import functools
import typing

from kfac._types import Tensor
from kfac.linalg import damped_matrix, eigendecomposition
from kfac.linalg.damped_matrix import DampedMatrix, damped_function
from kfac.linalg.eigendecomposition import Eigendecomposition


@typing.final
@dataclasses.dataclass(eq=False)
class UndampedMatrix:
    """A matrix M, decomposed at most once for all its damped functions.

    Attributes:
      matrix: M [n, n]; for a chain it stands for C₀ and C₁ [2, n, n].
      inverse_method: A key of `kfac.linalg.damped_matrix.INVERSIONS`; None inverts by the
        eigendecomposition.
    """

    matrix: Tensor
    inverse_method: str | None = "cholesky"

    @functools.cached_property
    def eigen(self) -> Eigendecomposition:
        """The eigendecomposition of M."""
        return eigendecomposition.eigendecompose(self.matrix)


class DampedFunction(abc.ABC):
    """A function of M + d·I that a factor can keep in a variable. Equal ones share the variable.

    `uses_eigenvalues` is true if it is computed from the eigendecomposition of M, so that inverses
    of the same M may as well be.
    """

    uses_eigenvalues: typing.ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Last part of the variable's name, such as "inverse" or `"power_-0.5"`."""

    def shape(self, size: int) -> tuple[int, int]:
        """Returns the shape of the kept matrix, for an M of `size` rows."""
        return size, size

    @abc.abstractmethod
    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns the function, and the path by which it was found. Never raises at run time.

        Returns `previous`, the value kept so far, if it cannot be computed. Its first column is
        never zero: zeros mean that a variable was not updated yet.
        """


class MatrixFunction(DampedFunction):
    """A function f that blocks can multiply by, as f of a Kronecker product is known from f.

    f(A⊗G) = f(A)⊗f(G), and f(c·I) = c^e·I. So f of a diagonal matrix is taken entry by entry. Of
    M = U diag(s) Uᵀ it is U diag(s)^e Uᵀ, but may lack the rotation on either side, as roots B of
    M = BBᵀ do, which are known but for a rotation.

    Attributes:
      has_left_vectors: True if f(U diag(s) Uᵀ) begins with U in a known eigenbasis.
      has_right_vectors: True if it ends with Uᵀ.
    """

    has_left_vectors: typing.ClassVar[bool] = True
    has_right_vectors: typing.ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def degree(self) -> float:
        """The exponent e."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """Returns its name in messages, such as "power -0.5"."""


@typing.final
@dataclasses.dataclass(frozen=True)
class Power(MatrixFunction):
    """(M + d·I)^e.

    Attributes:
      exponent: e, any number.
    """

    exponent: float

    uses_eigenvalues: typing.ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Returns "inverse", or for another exponent such as -0.5 `"power_-0.5"`."""
        return "inverse" if self.exponent == -1 else f"power_{self.exponent:g}"

    @property
    def degree(self) -> float:
        """The exponent."""
        return self.exponent

    def __str__(self) -> str:
        """Returns a text such as "power -0.5"."""
        return f"power {self.exponent:g}"

    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns (M + d·I)^e; inverses by the method of `undamped`."""
        method = undamped.inverse_method
        if self.exponent == -1 and method is not None:
            attempts = damped_matrix.INVERSES[method]
            return damped_function(undamped.matrix, damping, previous, attempts=attempts)
        return eigendecomposition.damped_power(undamped.eigen, damping, self.exponent, previous)


ITSELF = Power(1)
"""M + d·I, which is never kept but computed when it is used."""

INVERSE = Power(-1)
"""(M + d·I)⁻¹."""


@typing.final
@dataclasses.dataclass(frozen=True)
class Cholesky(MatrixFunction):
    """The lower triangular L with LLᵀ = M + d·I."""

    has_right_vectors: typing.ClassVar[bool] = False
    name = "cholesky"
    degree = 0.5

    def __str__(self) -> str:
        """Returns "Cholesky factor"."""
        return "Cholesky factor"

    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns L."""
        attempts = damped_matrix.CHOLESKY
        return damped_function(undamped.matrix, damping, previous, attempts=attempts)


@typing.final
@dataclasses.dataclass(frozen=True)
class CholeskyInverse(MatrixFunction):
    """L⁻¹, where L is lower triangular with LLᵀ = M + d·I."""

    has_left_vectors: typing.ClassVar[bool] = False
    name = "cholesky_inverse"
    degree = -0.5

    def __str__(self) -> str:
        """Returns "inverse Cholesky factor"."""
        return "inverse Cholesky factor"

    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns L⁻¹."""
        attempts = damped_matrix.CHOLESKY_INVERSE
        return damped_function(undamped.matrix, damping, previous, attempts=attempts)


@typing.final
@dataclasses.dataclass(frozen=True)
class Eigenbasis(DampedFunction):
    """U and below it e, [n + 1, n], of M = U diag(e) Uᵀ; the same for all d."""

    name = "eigenbasis"

    def shape(self, size: int) -> tuple[int, int]:
        """Returns (n + 1, n) for n rows."""
        return size + 1, size

    def compute(self, undamped: UndampedMatrix, damping: Tensor, previous: Tensor) -> DampedMatrix:
        """Returns U and below it e."""
        return eigendecomposition.eigenbasis(undamped.matrix, previous)
