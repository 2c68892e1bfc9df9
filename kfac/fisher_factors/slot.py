"""One function of a factor's damped matrix: its identification, its variables and its update.

The algebra and the failure policy are in `kfac.linalg.damped_matrix`. The block chooses the
damping. Called by `kfac.fisher_factors.matrix_functions`.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.linalg import chain, damped_matrix
from kfac.linalg.damped_matrix import DampedMatrix, Eigendecomposition
from kfac.linalg.retries import RARE_PATHS
from kfac.linalg.tensor_ops import statistics_dtype
from kfac.state import Addition, Assignment, Change, make_variable, read

_FUNCTIONS: Mapping[str, Callable[[Tensor, Tensor, Tensor], DampedMatrix]] = types.MappingProxyType(
    {
        "cholesky": damped_matrix.damped_cholesky,
        "cholesky_inverse": damped_matrix.damped_cholesky_inverse,
        "eigenbasis": damped_matrix.eigenbasis,
        "chain_1": chain.symmetric_chain,
        "chain_2": chain.limiting_chain,
    }
)


class Damping(NamedTuple):
    """The number d that is added to the diagonal of a factor.

    Attributes:
      name: Path of the variables below `kfac/` that depend on d. Equal names mean equal damping.
      compute: Computes d, shape [], anew, and returns it under its name. May return further
        dampings of the same computation under their names, such as that of the layer's other
        factor.
    """

    name: str
    compute: Callable[[], Mapping[str, Tensor]]

    def value(self) -> Tensor:
        """Returns d, shape [], computed now."""
        return self.compute()[self.name]


def current_dampings(
    dampings: Iterable[Damping], known: Mapping[str, Tensor] = types.MappingProxyType({})
) -> dict[str, Tensor]:
    """Returns dampings by name. Computes those that are not known, each computation once.

    Args:
      dampings: The dampings to compute.
      known: Dampings by name that were computed for the same update.
    """
    found = dict(known)
    for damping in dampings:
        if damping.name not in found:
            found.update(damping.compute())
    return found


class Request(NamedTuple):
    """The identification of a function of M + d·I.

    Attributes:
      damping: Name of the damping.
      kind: "power", "cholesky", "cholesky_inverse", "eigenbasis", "chain_1" or "chain_2".
      exponent: The power; 0 for the other kinds.
    """

    damping: str
    kind: str
    exponent: float = 0.0

    @property
    def leaf(self) -> str:
        """Last part of the variable's name, such as "inverse" or "power_-0.5"."""
        if self.kind != "power":
            return self.kind
        return "inverse" if self.exponent == -1 else f"power_{self.exponent:g}"


@typing.final
class MatrixSlot:
    """A function of M + d·I kept in a variable that starts at zero.

    Products with it are zero before the first update.

    Attributes:
      request: The function.
      damping: d.
      name: Path of the variables below `kfac/`.
    """

    def __init__(self, request: Request, damping: Damping) -> None:
        """Makes no variables yet.

        Args:
          request: The function.
          damping: d.
        """
        self.request = request
        self.name = f"{request.damping}/{request.leaf}"
        self.damping = damping
        self._matrix: Variable = None
        self._rare_paths: Variable = None

    def make_variables(self, shape: Sequence[int], dtype: DType, device: str) -> None:
        """Makes the matrix and its counters, once."""
        if self._matrix is None:
            counters = [len(RARE_PATHS)]
            self._matrix = make_variable(self.name, shape, dtype, device)
            self._rare_paths = make_variable(f"{self.name}_rare_paths", counters, tf.int64, device)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The matrix and the counters; empty before they are made."""
        return () if self._matrix is None else (self._matrix, self._rare_paths)

    @property
    def matrix(self) -> Variable:
        """The variable of the matrix; None before it is made."""
        return self._matrix

    def read(self) -> Tensor:
        """Reads the matrix now."""
        return read(self._matrix)

    def is_computed(self) -> Tensor:
        """Returns bool [], true once the function has been computed.

        The variable starts with zeros, and no function has a first column of zeros.
        """
        with tf.compat.v1.device(self._matrix.device):
            return tf.reduce_any(tf.not_equal(self.read()[:, 0], 0))

    def read_rare_paths(self) -> Tensor:
        """Reads the number of times that each of `RARE_PATHS` was taken so far, int64 [3]."""
        return read(self._rare_paths)

    def updated(
        self, matrix: Tensor, dampings: Mapping[str, Tensor], inverse_method: str = "cholesky"
    ) -> list[Change]:
        """Computes the function anew; returns the changes of `variables`.

        Args:
          matrix: M [n, n], or for a chain C₀ and C₁ [2, n, n].
          dampings: Dampings by name, shape [] each; d among them.
          inverse_method: A key of `kfac.linalg.inversion.INVERSIONS`.
        """
        matrix = tf.cast(matrix, statistics_dtype(self._matrix.dtype.base_dtype))
        damping, previous = self._damping_and_previous(dampings, matrix.dtype)
        if self.request.leaf == "inverse":
            found = damped_matrix.damped_inverse(matrix, damping, previous, inverse_method)
        else:
            found = _FUNCTIONS[self.request.kind](matrix, damping, previous)
        return self._changes(found)

    def updated_by_eigen(
        self, eigen: Eigendecomposition, dampings: Mapping[str, Tensor]
    ) -> list[Change]:
        """Computes a power anew from the eigendecomposition of M; see `updated`."""
        damping, previous = self._damping_and_previous(dampings, eigen.values.dtype)
        exponent = self.request.exponent
        return self._changes(damped_matrix.damped_power(eigen, damping, exponent, previous))

    def _damping_and_previous(
        self, dampings: Mapping[str, Tensor], dtype: DType
    ) -> tuple[Tensor, Tensor]:
        return tf.cast(dampings[self.damping.name], dtype), tf.cast(self.read(), dtype)

    def _changes(self, found: DampedMatrix) -> list[Change]:
        matrix = tf.cast(found.matrix, self._matrix.dtype.base_dtype)
        return [Assignment(self._matrix, matrix), Addition(self._rare_paths, found.rare_paths)]
