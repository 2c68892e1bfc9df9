"""One function of a factor's damped matrix: its damping, its variables and its update.

The function is a `kfac.linalg.damped_functions.DampedFunction`. The block chooses the damping.
Called by `kfac.fisher_factors.kept_functions`.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.linalg.damped_functions import DampedFunction, UndampedMatrix
from kfac.linalg.retries import RARE_PATHS
from kfac.linalg.shared import shared
from kfac.linalg.tensor_ops import has_first_column
from kfac.state import Addition, Assignment, Change, make_variable, read


class Damping(NamedTuple):
    """The number d that is added to the diagonal of a factor.

    Attributes:
      name: Path of the variables below `kfac/` that depend on d. Equal names mean equal damping.
      compute: Function that computes d, shape [], anew and returns it under its name. It may return
        further dampings of the same computation under their names, such as that of the layer's
        other factor.
    """

    name: str
    compute: Callable[[], Mapping[str, Tensor]]

    def value(self) -> Tensor:
        """Returns d, shape [], computed now."""
        return self.compute()[self.name]


def current_dampings(
    dampings: Iterable[Damping], known: Mapping[str, Tensor] = types.MappingProxyType({})
) -> dict[str, Tensor]:
    """Returns dampings by name. Computes those not yet known, each computation only once."""
    found = dict(known)
    for damping in dampings:
        if damping.name not in found:
            found.update(damping.compute())
    return found


@shared
def _has_values(matrix: Variable) -> Tensor:
    """Returns bool [], true unless the first column of a matrix is zero."""
    return has_first_column(read(matrix))


def compute_changes(
    function: DampedFunction,
    variables: tuple[Variable, Variable],
    damping: Tensor,
    undamped: UndampedMatrix,
) -> list[Change]:
    """Computes a function of M + d·I anew; returns the changes of its variables.

    Args:
      function: The function.
      variables: Those of a `MatrixSlot`.
      damping: d, shape [].
      undamped: M, in a dtype of at least float32.
    """
    matrix, rare_paths = variables
    dtype = undamped.matrix.dtype
    found = function.compute(undamped, tf.cast(damping, dtype), tf.cast(read(matrix), dtype))
    value = tf.cast(found.matrix, matrix.dtype.base_dtype)
    return [Assignment(matrix, value), Addition(rare_paths, found.rare_paths)]


@typing.final
class MatrixSlot:
    """A function of M + d·I kept in a variable that starts at zero.

    Products with it are zero before the first update.

    Attributes:
      function: The function.
      damping: d.
      name: Path of the variables below `kfac/`.
    """

    def __init__(self, function: DampedFunction, damping: Damping) -> None:
        self.function = function
        self.name = f"{damping.name}/{function.name}"
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

        The variable starts at zero, and no function has zeros in its whole first column.
        """
        with tf.compat.v1.device(self._matrix.device):
            return typing.cast(Tensor, _has_values(self._matrix))

    def read_rare_paths(self) -> Tensor:
        """Reads the number of times that each of `RARE_PATHS` was taken so far, int64 [3]."""
        return read(self._rare_paths)
