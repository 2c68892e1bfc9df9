"""A moving average kept as a sum and a weight, so that its zero start causes no bias.

Knows nothing of layers or towers. Called by `kfac.fisher_factors.base`.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.state import Addition, Assignment, Change, make_counter, make_variable, read

v1 = tf.compat.v1


@typing.final
class MovingAverage:
    """The average S/w of a statistic C: S ← βS + ωC, w ← βw + ω, both zero at first.

    A refused batch changes neither S nor w, but is counted.
    """

    def __init__(self) -> None:
        """Makes no variables yet."""
        self._variables: tuple[Variable, ...] = ()

    def make_variables(self, name: str, shape: Sequence[int], dtype: DType, device: str) -> None:
        """Makes the variables on `device`.

        Args:
          name: Path of the factor below `kfac/`.
          shape: Shape of the statistic.
          dtype: Dtype of S and w.
          device: Device of the variables.
        """
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
        refusals: Tensor | None = None,
    ) -> list[Change]:
        """Adds a statistic to the average; returns the changes of `variables`.

        Args:
          statistic: C.
          accept: bool []; if false, the batch is counted as refused and changes nothing else.
          ema_decay: β, weight of the past.
          ema_weight: ω, weight of this statistic.
          refusals: int64 [], 1 if the batch is refused; None: it is found here.
        """
        total, weight, refused = self._variables
        if refusals is None:
            refusals = tf.cast(tf.logical_not(accept), tf.int64)
        dtype = total.dtype.base_dtype
        beta, omega = (tensor_ops.as_scalar(x, dtype) for x in (ema_decay, ema_weight))
        is_one = isinstance(ema_weight, (int, float)) and ema_weight == 1
        new = statistic if is_one else omega * statistic
        # All but the choice is computed early: `accept` is known only once all statistics are.
        old_total, old_weight = read(total), read(weight)
        with v1.control_dependencies([new]):
            past = beta * old_total
        return [
            Assignment(total, tensor_ops.choose(accept, past + new, old_total)),
            Assignment(weight, tensor_ops.choose(accept, beta * old_weight + omega, old_weight)),
            Addition(refused, refusals),
        ]
