"""A moving average kept as a sum S and a weight w, so that its zero start causes no bias.

The formulas, each one operation: the average S/w, its trace, and the fold of a statistic. Knows
nothing of layers or towers. Called by factors, which own the variables.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.shared import Reading, SharedFunction, shared
from kfac.state import Addition, Assignment, Change, assign_all, read

v1 = tf.compat.v1


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
def fold_average(
    average: tuple[Variable, ...], statistic: Tensor, accept: Tensor, *, beta: Scalar, omega: Scalar
) -> Operation:
    """Makes S ← βS + ωC and w ← βw + ω if C is accepted; else counts a refusal.

    `average` are the variables S, w and the count. β and ω are numbers or Tensors [].
    """
    total, weight, refused = average
    is_one = isinstance(omega, float) and omega == 1
    beta, omega = (tensor_ops.as_scalar(x, statistic.dtype) for x in (beta, omega))
    gains = (statistic if is_one else omega * statistic), omega
    changes: list[Change] = []
    for variable, gain in zip((total, weight), gains, strict=True):
        old = read(variable)
        changes.append(Assignment(variable, v1.where(accept, beta * old + gain, old)))
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
        return Reading(self._function, (*self._arguments, *factor.cov_variables[:2]))
