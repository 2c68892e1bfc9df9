"""A moving average kept as a sum and a weight, so that its zero start causes no bias.

Knows nothing of layers or towers. Called by `kfac.fisher_factors.base`.
"""

import typing
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.state import Addition, Assignment, Change, make_counter, make_variable, read

v1 = tf.compat.v1


class Tally(NamedTuple):
    """The new weight w, shape [], or [n] for n averages, and refusals, int64 [], 1 if refused."""

    weight: Tensor
    refusals: Tensor

    @classmethod
    def of(cls, weight: Tensor, accept: Tensor, beta: Tensor, omega: Tensor) -> "Tally":
        """Computes them from the old w, the choice (bool []), and the weights β and ω, shape []."""
        refusals = tf.cast(tf.logical_not(accept), tf.int64)
        return cls(tensor_ops.choose(accept, beta * weight + omega, weight), refusals)


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

    def updated(
        self,
        statistic: Tensor,
        accept: Tensor,
        ema_decay: Scalar,
        ema_weight: Scalar,
        tally: Tally | None = None,
    ) -> list[Change]:
        """Adds a statistic C to the average; returns the changes of `variables`.

        If `accept`, bool [], is false, the batch is counted as refused and changes nothing else. β
        is `ema_decay` and ω `ema_weight`. A `tally` that is not given is found here.
        """
        total, weight, refused = self._variables
        beta = tensor_ops.as_scalar(ema_decay, total.dtype)
        is_one = isinstance(ema_weight, (int, float)) and ema_weight == 1
        new = statistic if is_one else tensor_ops.as_scalar(ema_weight, total.dtype) * statistic
        # All but the choice is computed early: `accept` is known only once all statistics are.
        old = read(total)
        with v1.control_dependencies([new]):
            past = beta * old
        if tally is None:
            omega = tensor_ops.as_scalar(ema_weight, total.dtype)
            tally = Tally.of(self.read_weight(), accept, beta, omega)
        return [
            Assignment(total, tensor_ops.choose(accept, past + new, old)),
            Assignment(weight, tally.weight),
            Addition(refused, tally.refusals),
        ]
