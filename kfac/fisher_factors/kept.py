"""Variables that a factor keeps: its moving average, and functions of its damped matrix.

The average is kept as a sum S and a weight w, so that its zero start causes no bias. A function of
M + d·I is a `kfac.linalg.damped_functions.DampedFunction`, of which a block chooses the damping.
Each formula is one operation. Knows nothing of layers or towers. Called by the factors.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import DampedFunction, UndampedMatrix
from kfac.linalg.damped_matrix import LARGEST_BLOCK, RARE_PATHS
from kfac.linalg.shared import Reading, SharedFunction, shared, sizes_above
from kfac.linalg.symmetric_packing import unpack
from kfac.state import Addition, Assignment, Change, assign_all, make_variable, read

v1 = tf.compat.v1


def read_total(total: Variable, weight: Variable, is_odd: bool | None = None) -> Tensor:
    """Reads S in the dtype of w. `is_odd` is None if S is not packed; see `unpack`."""
    value = tf.cast(read(total), weight.dtype.base_dtype)
    return value if is_odd is None else unpack(value, is_odd)


@shared
def quotient(total: Variable, weight: Variable, is_odd: bool | None = None) -> Tensor:
    """Returns S/w, read now; NaN before the first update."""
    return read_total(total, weight, is_odd) / read(weight)


@shared
def trace_of_matrix(total: Variable, weight: Variable, is_odd: bool | None = None) -> Tensor:
    """Returns the trace of S/w, for S [n, n]."""
    value = read_total(total, weight, is_odd)
    return tf.reduce_sum(tf.raw_ops.MatrixDiagPart(input=value), axis=-1) / read(weight)


@shared
def trace_of_diagonal(total: Variable, weight: Variable) -> Tensor:
    """Returns the trace of the diagonal matrix S/w, for S [n]."""
    return tf.reduce_sum(read_total(total, weight) / read(weight))


@shared
def mean_eigenvalue(trace: SharedFunction, *average: Any) -> Tensor:
    """Returns the trace of S/w over the number of its rows. `average` is that of `quotient`."""
    found, (total, _, *is_odd) = trace(*average), average
    rows = tf.shape(read(total))[0]
    if is_odd:
        rows = 2 * rows - int(is_odd[0])
    return found / tf.cast(rows, found.dtype)


@shared
def fold_average(
    average: tuple[Variable, ...], statistic: Tensor, accept: Tensor, *, beta: Scalar, omega: Scalar
) -> Operation:
    """Makes S ← βS + ωC and w ← βw + ω if C is accepted; else counts a refusal.

    `average` are the variables S, w and the count, the statistic has the form of S. It is added in
    its own dtype, that of w, to which S is cast. β and ω are numbers or Tensors [].
    """
    total, weight, refused = average
    is_one = isinstance(omega, float) and omega == 1
    beta, omega = (tensor_ops.as_scalar(x, statistic.dtype) for x in (beta, omega))
    gains = (statistic if is_one else omega * statistic), omega
    changes: list[Change] = []
    for variable, gain in zip((total, weight), gains, strict=True):
        old = tf.cast(read(variable), statistic.dtype)
        new = v1.where(accept, beta * old + gain, old)
        changes.append(Assignment(variable, tf.cast(new, variable.dtype.base_dtype)))
    refusals = tf.cast(tf.logical_not(accept), tf.int64)
    return assign_all([*changes, Addition(refused, refusals)])


@typing.final
class OfAverage:
    """A method of a factor that is a formula of S and w, after other arguments of it.

    It is passed on as a `Reading`, so an operation that needs it reads S and w by itself. A method
    of a class that computes it otherwise takes its place.
    """

    def __init__(self, function: SharedFunction, *arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    def __get__(self, factor: Any, owner: type) -> Any:
        """Returns the `Reading` of a factor."""
        if factor is None:
            return self
        return Reading(self._function, (*self._arguments, *factor.average))

    def __call__(self, factor: Any) -> Tensor:
        """Returns the result for a factor, where a class calls the method of its base by name."""
        return self.__get__(factor, type(factor))()


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


@shared(sizes=sizes_above(LARGEST_BLOCK), then=assign_all)
def refresh_slots(
    matrix: Tensor | Reading,
    variables: Sequence[tuple[Variable, Variable]],
    dampings: Sequence[Tensor],
    *,
    functions: Sequence[DampedFunction],
    method: str | None,
    dtype: DType,
) -> list[Change]:
    """Computes functions of M + d·I; returns the changes of variables, which the operation makes.

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


@shared
def _has_values(matrix: Variable) -> Tensor:
    """Returns bool [], true unless the first column of a matrix is zero."""
    return tensor_ops.has_first_column(read(matrix))


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
        with v1.device(self.matrix.device):
            return typing.cast(Tensor, _has_values(self.matrix))

    def read_rare_paths(self) -> Tensor:
        """Reads the number of times that each of `RARE_PATHS` was taken so far, int64 [3]."""
        return read(self.variables[1])
