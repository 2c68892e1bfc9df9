"""Shares of the batch: factors that make the sum of the towers' gradients that of the batch.

Each tower's gradients belong to the tower's own loss. If losses are averaged, they count by the
tower's share: rows of its shard ÷ rows of the batch. With equal shards the sums are multiplied,
once for all towers. Otherwise each tower multiplies its own gradients, whatever they were computed
from.
"""

import dataclasses
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Tensor, Variable

v1 = tf.compat.v1


@typing.final
@dataclasses.dataclass(frozen=True)
class GradientShare:
    """Share of the batch by which a tower's gradients count.

    Attributes:
      share: A float if all towers have the same; 1.0 if gradients are added up as they are. Else a
        scalar Tensor, which is 0 for an empty shard.
    """

    share: Tensor | float = 1.0

    def in_tower(
        self, gradients_and_variables: Sequence[tuple[Gradient | None, Variable]]
    ) -> list[tuple[Gradient | None, Variable]]:
        """Multiplies those gradients by the share that must be multiplied before the sum."""
        return [
            (
                gradient
                if gradient is None or self._is_for_sums(gradient)
                else with_values(gradient, share_of(gradient_values(gradient), self.share)),
                variable,
            )
            for gradient, variable in gradients_and_variables
        ]

    def of_sums(
        self, gradients_and_variables: Sequence[tuple[Gradient, Variable]]
    ) -> list[tuple[Gradient, Variable]]:
        """Multiplies the other gradients, after the sum over towers, each on its device."""
        if isinstance(self.share, float) and self.share == 1.0:
            return list(gradients_and_variables)
        # One constant serves all gradients of a device: as an operation for each, they take time.
        factors: dict[tuple[str, tf.DType], Tensor] = {}
        return [
            (self._of_sum(gradient, factors) if self._is_for_sums(gradient) else gradient, variable)
            for gradient, variable in gradients_and_variables
        ]

    def _is_for_sums(self, gradient: Gradient) -> bool:
        """Returns True if the sum is multiplied. A sum of float16 might overflow before that."""
        return isinstance(self.share, float) and gradient.dtype != tf.float16

    def _of_sum(self, gradient: Gradient, factors: dict[tuple[str, tf.DType], Tensor]) -> Gradient:
        values = gradient_values(gradient)
        key = values.device, values.dtype
        with v1.device(values.device):
            if key not in factors:
                factors[key] = tf.constant(self.share, values.dtype)
            return with_values(gradient, values * factors[key])


UNWEIGHTED = GradientShare()
"""Share of gradients that are added up as they are."""


def share_of(value: Tensor, share: Tensor | float, name: str | None = None) -> Tensor:
    """Returns a loss or gradient multiplied by a tower's share of the batch."""
    if isinstance(share, float):
        if share == 1.0:
            return value
        return tf.multiply(value, tf.constant(share, value.dtype), name=name)
    # The mean over an empty shard is NaN. Its share 0 makes it 0.
    return tf.math.multiply_no_nan(value, tf.cast(share, value.dtype), name=name)


def as_gradients(
    gradients_and_variables: Iterable[tuple[Any, Variable]],
) -> list[tuple[Gradient | None, Variable]]:
    """Converts gradients that are arrays, numbers or variables to Tensors. Keeps None."""
    return [
        (
            gradient
            if gradient is None or isinstance(gradient, tf.Tensor | tf.IndexedSlices)
            else tf.convert_to_tensor(gradient, variable.dtype.base_dtype),
            variable,
        )
        for gradient, variable in gradients_and_variables
    ]
