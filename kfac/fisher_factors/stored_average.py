"""Moving averages as the variables that they are kept in, for functions that read these.

A shared function that reads S and w saves the operations that read and divide them. It is called
where the variables are. That is of use in graphs; in functions, TensorFlow would take its reads for
writes, and let other operations wait. Called by factors, blocks and summaries.
"""

import functools
import typing
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.kronecker import pi_and_inverse
from kfac.linalg.shared_functions import SharedFunction, reading_function
from kfac.state import is_in_function
from kfac.variables import is_resource

v1 = tf.compat.v1

TraceFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function of S and w that returns the trace, shape []; defined in a module: it keys a cache."""


def trace_of_matrix(total: Tensor, weight: Tensor) -> Tensor:
    """Returns the trace of S/w, for S [n, n]."""
    return tensor_ops.trace(total) / weight


def trace_of_diagonal(total: Tensor, weight: Tensor) -> Tensor:
    """Returns the trace of the diagonal matrix S/w, for S [n]."""
    return tf.reduce_sum(total / weight)


class AverageKind(NamedTuple):
    """All that a function of an average depends on.

    Attributes:
      trace: The trace.
      dtype: Dtype of S and w.
      rank: 2 for S [n, n], 1 for S [n].
    """

    trace: TraceFunction
    dtype: DType
    rank: int

    @property
    def specs(self) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """Those of S and w."""
        return tf.TensorSpec([None] * self.rank, self.dtype), tf.TensorSpec([], self.dtype)

    def traces(self, total: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the trace, and the mean eigenvalue: the trace over n."""
        trace = self.trace(total, weight)
        return trace, trace / tf.cast(tf.shape(total)[0], self.dtype)


@typing.final
class StoredAverage(NamedTuple):
    """An average S/w, n rows in each axis of S, and the trace of the matrix that it stands for.

    Attributes:
      total: The variable of S.
      weight: The variable of w.
      trace: The trace as a function of S and w.
    """

    total: Variable
    weight: Variable
    trace: TraceFunction

    @property
    def kind(self) -> AverageKind:
        """The kind of average, equal for averages of all sizes."""
        return AverageKind(self.trace, self.total.dtype.base_dtype, self.total.shape.rank)

    @property
    def variables(self) -> tuple[Variable, Variable]:
        """S and w."""
        return self.total, self.weight

    @property
    def handles(self) -> tuple[Tensor, Tensor]:
        """The handles of S and w."""
        return self.total.handle, self.weight.handle


def are_together(variables: Iterable[Variable], device: str | None = None) -> bool:
    """Returns True if a function that reads these variables can be called in this graph.

    They must be on one device, namely on `device` unless that is None, and the graph must not be
    that of a function.
    """
    if is_in_function():
        return False
    found = list(variables)
    devices = {_canonical(variable.device) for variable in found}
    wanted = devices if device is None else {_canonical(device)}
    return len(devices) == 1 and devices == wanted and all(map(is_resource, found))


def _canonical(device: str) -> str:
    return str(v1.DeviceSpec.from_string(device).to_string())


def traces_of(average: StoredAverage) -> list[Tensor]:
    """Returns the trace and the mean eigenvalue of an average on one device, read now."""
    with v1.device(None), v1.device(average.total.device):
        return _traces(average.kind)(*average.handles)


@functools.cache
def _traces(kind: AverageKind) -> SharedFunction:
    return reading_function(kind.traces, kind.specs, name="trace")


def split_damping_of(a: StoredAverage, g: StoredAverage, root: Tensor) -> tuple[Tensor, Tensor]:
    """Returns π√λ and √λ/π, each in the dtype of its average, for two averages on one device.

    `root` is √λ in the dtype of A. For π see `balance`.
    """
    with v1.device(None), v1.device(a.total.device):
        of_a, of_g = _split_damping(a.kind, g.kind)(*a.handles, *g.handles, root)
    return of_a, of_g


@functools.cache
def _split_damping(a: AverageKind, g: AverageKind) -> SharedFunction:
    def compute(*values: Tensor) -> tuple[Tensor, Tensor]:
        *averages, root = values
        (_, a_mean), (_, g_mean) = a.traces(*averages[:2]), g.traces(*averages[2:])
        pi, inverse = pi_and_inverse(a_mean, tf.cast(g_mean, a.dtype))
        return root * pi, tf.cast(root * inverse, g.dtype)

    specs = [tf.TensorSpec([], a.dtype)]
    return reading_function(compute, [*a.specs, *g.specs], specs, name="split_damping")
