"""One function of a factor's damped matrix: its damping, its variables and its update.

The function is a `kfac.linalg.damped_functions.DampedFunction`. The block chooses the damping.
Called by the factors.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable
from kfac.linalg.damped_functions import DampedFunction, UndampedMatrix
from kfac.linalg.damped_matrix import RARE_PATHS
from kfac.linalg.inversion import LARGEST_BLOCK
from kfac.linalg.shared import Reading, shared, sizes_above
from kfac.linalg.tensor_ops import has_first_column
from kfac.state import Addition, Assignment, Change, assign_all, make_variable, read


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


def compute_changes(
    matrix: Tensor | Reading,
    variables: Sequence[tuple[Variable, Variable]],
    dampings: Sequence[Tensor],
    *,
    functions: Sequence[DampedFunction],
    method: str | None,
    dtype: DType,
) -> list[Change]:
    """Computes functions of M + d·I anew; returns the changes of their variables.

    Args:
      matrix: M [n, n], or for a chain C₀ and C₁ [2, n, n]; or a reading of it.
      variables: Those of the `MatrixSlot` of each function.
      dampings: d of each function, shape [].
      functions: The functions. They may share the eigendecomposition of M.
      method: The way to invert; see `UndampedMatrix`.
      dtype: Dtype of the computation, at least float32.
    """
    undamped = UndampedMatrix(tf.cast(matrix() if callable(matrix) else matrix, dtype), method)
    changes: list[Change] = []
    for function, (kept, rare_paths), damping in zip(functions, variables, dampings, strict=True):
        found = function.compute(undamped, tf.cast(damping, dtype), tf.cast(read(kept), dtype))
        found.matrix.set_shape(kept.shape)
        value = tf.cast(found.matrix, kept.dtype.base_dtype)
        changes += [Assignment(kept, value), Addition(rare_paths, found.rare_paths)]
    return changes


@shared(sizes=sizes_above(LARGEST_BLOCK))
def refresh_slots(*arguments: Any, **settings: Any) -> Operation:
    """Assigns what `compute_changes`, of the same arguments, computes."""
    return assign_all(compute_changes(*arguments, **settings))


@shared
def _has_values(matrix: Variable) -> Tensor:
    """Returns bool [], true unless the first column of a matrix is zero."""
    return has_first_column(read(matrix))


@typing.final
class MatrixSlot:
    """A function of M + d·I kept in a variable that starts at zero.

    Products with it are zero before the first update.

    Attributes:
      function: The function.
      damping: d.
      name: Path of the variables below `kfac/`.
      matrix: The variable of the matrix; None before it is made.
      variables: The matrix and its counters; empty before they are made.
    """

    def __init__(self, function: DampedFunction, damping: Damping) -> None:
        self.function = function
        self.name = f"{damping.name}/{function.name}"
        self.damping = damping
        self.matrix: Variable = None
        self.variables: tuple[Variable, ...] = ()

    def make_variables(self, shape: Sequence[int], dtype: DType, device: str) -> None:
        """Makes the matrix and its counters, once."""
        if self.matrix is None:
            counters = [len(RARE_PATHS)]
            self.matrix = make_variable(self.name, shape, dtype, device)
            rare_paths = make_variable(f"{self.name}_rare_paths", counters, tf.int64, device)
            self.variables = self.matrix, rare_paths

    def read(self) -> Tensor:
        """Reads the matrix now."""
        return read(self.matrix)

    def is_computed(self) -> Tensor:
        """Returns bool [], true once the function has been computed.

        The variable starts at zero, and no function has zeros in its whole first column.
        """
        with tf.compat.v1.device(self.matrix.device):
            return typing.cast(Tensor, _has_values(self.matrix))

    def read_rare_paths(self) -> Tensor:
        """Reads the number of times that each of `RARE_PATHS` was taken so far, int64 [3]."""
        return read(self.variables[1])
