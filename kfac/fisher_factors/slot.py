"""One function of a factor's damped matrix: its damping, its variables and its update.

The function is a `kfac.linalg.damped_functions.DampedFunction`. The block chooses the damping.
Called by `kfac.fisher_factors.kept_functions`.
"""

import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable
from kfac.fisher_factors.stored_average import StoredAverage
from kfac.linalg.damped_functions import DampedFunction, UndampedMatrix
from kfac.linalg.damped_matrix import Attempts, StoredMatrix, update_function
from kfac.linalg.retries import RARE_PATHS
from kfac.linalg.shared_functions import SharedFunction
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


@functools.cache
def _has_values(dtype: DType) -> SharedFunction:
    """Returns bool [] of a matrix, true unless its first column is zero."""
    return SharedFunction(has_first_column, [tf.TensorSpec([None, None], dtype)], name="has_values")


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
            matrix = self.read()
            return _has_values(matrix.dtype)(matrix)[0]

    def read_rare_paths(self) -> Tensor:
        """Reads the number of times that each of `RARE_PATHS` was taken so far, int64 [3]."""
        return read(self._rare_paths)

    def updated(self, undamped: UndampedMatrix, dampings: Mapping[str, Tensor]) -> list[Change]:
        """Computes the function anew; returns the changes of `variables`.

        Args:
          undamped: M, in a dtype of at least float32.
          dampings: Dampings by name, shape [] each, including d.
        """
        dtype = undamped.matrix.dtype
        damping = tf.cast(dampings[self.damping.name], dtype)
        found = self.function.compute(undamped, damping, tf.cast(self.read(), dtype))
        matrix = tf.cast(found.matrix, self._matrix.dtype.base_dtype)
        return [Assignment(self._matrix, matrix), Addition(self._rare_paths, found.rare_paths)]

    def update_from(
        self,
        average: StoredAverage,
        attempts: Attempts,
        dampings: Mapping[str, Tensor],
        dtype: DType,
    ) -> Operation:
        """Returns an op that computes the function of M = S/w anew; all variables are together.

        Args:
          average: S [n, n] and w.
          attempts: Those of the function.
          dampings: Dampings by name, shape [] each, including d.
          dtype: Dtype in which it is computed.
        """
        stored = StoredMatrix(average.total, average.weight, self._matrix, self._rare_paths)
        return update_function(stored, tf.cast(dampings[self.damping.name], dtype), attempts, dtype)
