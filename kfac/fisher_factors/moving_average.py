"""A moving average kept as a sum and a weight, so that its zero start causes no bias.

Knows nothing of layers or towers. Called by `kfac.fisher_factors.base`.
"""

import functools
import numbers
import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Operation, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.shared_functions import read_handle
from kfac.linalg.shared_updates import SharedUpdate
from kfac.state import make_counter, make_variable, read


@functools.cache
def _fold(dtype: DType, decay: float | None, ema_weight: float | None) -> SharedUpdate:
    """Returns the update of S, w and the count of refusals by a statistic, if it is accepted.

    β and ω are known numbers, or else further arguments [] in this order.
    """

    def compute(
        total: Tensor,
        weight: Tensor,
        refused: Tensor,
        new: Tensor,
        accept: Tensor,
        *scalars: Tensor,
    ) -> None:
        unknown = iter(scalars)
        beta = tf.constant(decay, dtype) if decay is not None else next(unknown)
        omega = tf.constant(ema_weight, dtype) if ema_weight is not None else next(unknown)
        gains = (new if ema_weight == 1 else omega * new), omega
        for variable, gain in zip((total, weight), gains, strict=True):
            old = read_handle(variable, tf.TensorSpec(None, dtype))
            value = tensor_ops.choose(accept, beta * old + gain, old)
            tf.raw_ops.AssignVariableOp(resource=variable, value=value)
        refusals = tf.cast(tf.logical_not(accept), tf.int64)
        tf.raw_ops.AssignAddVariableOp(resource=refused, value=refusals)

    number = tf.TensorSpec([], dtype)
    unknown = [number for known in (decay, ema_weight) if known is None]
    specs = tf.TensorSpec(None, dtype), tf.TensorSpec([], tf.bool), *unknown
    return SharedUpdate(compute, 3, specs, name="fold")


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

    def update(
        self, statistic: Tensor, accept: Tensor, ema_decay: Scalar, ema_weight: Scalar
    ) -> Operation:
        """Returns an op that adds a statistic C to the average.

        If `accept`, bool [], is false, the batch is counted as refused and changes nothing else. β
        is `ema_decay` and ω `ema_weight`.
        """
        dtype = self.total.dtype.base_dtype
        scalars = [x() if callable(x) else x for x in (ema_decay, ema_weight)]
        known = [float(x) if isinstance(x, numbers.Real) else None for x in scalars]
        unknown = [
            tensor_ops.as_scalar(x, dtype)
            for x, is_known in zip(scalars, known, strict=True)
            if is_known is None
        ]
        return _fold(dtype, *known)(self._variables, statistic, accept, *unknown)
