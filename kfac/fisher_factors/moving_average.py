"""A moving average kept as a sum and a weight, so that its zero start causes no bias.

Knows nothing of layers or towers. Called by `kfac.fisher_factors.base`.
"""

import numbers
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.shared import Reading, SharedFunction, shared
from kfac.state import (
    Addition,
    Assignment,
    Change,
    assign_all,
    make_counter,
    make_variable,
    read,
)


@shared
def quotient(total: Variable, weight: Variable) -> Tensor:
    """Returns S/w, read now; NaN before the first update."""
    return read(total) / read(weight)


@shared
def trace_of_matrix(total: Variable, weight: Variable) -> Tensor:
    """Returns the trace of S/w, for S [n, n]."""
    return tensor_ops.trace(read(total)) / read(weight)


@shared
def trace_of_diagonal(total: Variable, weight: Variable) -> Tensor:
    """Returns the trace of the diagonal matrix S/w, for S [n]."""
    return tf.reduce_sum(read(total) / read(weight))


@shared
def mean_eigenvalue(trace: SharedFunction, total: Variable, weight: Variable) -> Tensor:
    """Returns the trace of S/w over the number of its rows."""
    found = trace(total, weight)
    return found / tf.cast(tf.shape(read(total))[0], found.dtype)


@shared
def _fold(
    average: tuple[Variable, ...],
    statistic: Tensor,
    accept: Tensor,
    *,
    ema_decay: Scalar,
    ema_weight: Scalar,
) -> Operation:
    """Makes S ← βS + ωC and w ← βw + ω if C is accepted; else counts a refusal.

    `average` are the variables S, w and the count. β and ω are numbers or Tensors [].
    """
    total, weight, refused = average
    beta, omega = (tensor_ops.as_scalar(x, statistic.dtype) for x in (ema_decay, ema_weight))
    is_one = isinstance(ema_weight, float) and ema_weight == 1
    gains = (statistic if is_one else omega * statistic), omega
    changes: list[Change] = []
    for variable, gain in zip((total, weight), gains, strict=True):
        old = read(variable)
        changes.append(Assignment(variable, tensor_ops.choose(accept, beta * old + gain, old)))
    refusals = tf.cast(tf.logical_not(accept), tf.int64)
    return assign_all([*changes, Addition(refused, refusals)])


def of_average(function: SharedFunction, *arguments: Any) -> Any:
    """Returns a method of factors that is a function of S and w, after other arguments."""
    return _OfAverage(function, *arguments)


@typing.final
class AverageValue(property):
    """The property S/w of a factor, which operations may read by themselves."""


@typing.final
class _OfAverage:
    """A method of a factor that is a formula of S and w, and is passed on as a `Reading`.

    So an operation that needs it reads S and w by itself. A method of a class that computes it
    otherwise takes its place.
    """

    def __init__(self, function: SharedFunction, *arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    def __get__(self, factor: Any, owner: type) -> Any:
        """Returns the `Reading` of a factor."""
        if factor is None:
            return self
        return Reading(self._function, (*self._arguments, *factor.cov_variables[:2]))


@typing.final
class MovingAverage:
    """The average S/w of a statistic C: S ← βS + ωC, w ← βw + ω, both zero at first.

    A refused batch changes neither S nor w, but is counted.
    """

    def __init__(self) -> None:
        self._variables: tuple[Variable, ...] = ()

    def make_variables(self, name: str, shape: Sequence[int], dtype: DType, device: str) -> None:
        """Makes the variables S of a shape, w and the count of refusals, below the path `name`."""
        self._variables = (
            make_variable(f"{name}/cov", shape, dtype, device),
            make_variable(f"{name}/cov_weight", [], dtype, device),
            make_counter(f"{name}/cov_refused", device),
        )

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The sum S, the weight w and the number of refused statistics; empty at first."""
        return self._variables

    @property
    def total(self) -> Variable:
        """The variable of S."""
        return self._variables[0]

    def read_weight(self) -> Tensor:
        """Reads w now, shape []."""
        return read(self._variables[1])

    def read(self) -> Tensor:
        """Reads S/w now; NaN before the first update."""
        return read(self.total) / self.read_weight()

    def fold(
        self, statistic: Tensor, accept: Tensor, ema_decay: Scalar, ema_weight: Scalar = 1.0
    ) -> Operation:
        """Returns an op that folds a statistic C into the average.

        If `accept`, bool [], is false, the batch is counted as refused and changes nothing else. β
        is `ema_decay` and ω `ema_weight`.
        """
        scalars = [x() if callable(x) else x for x in (ema_decay, ema_weight)]
        decay, weight = (
            float(x) if isinstance(x, numbers.Real) else tf.convert_to_tensor(x) for x in scalars
        )
        return _fold(self._variables, statistic, accept, ema_decay=decay, ema_weight=weight)
