"""Factors of layers that scale and shift each entry, such as the end of a normalization.

A layer y = x∘γ + β in which γ and β may be broadcast over axes of x. Per example the gradient is
r = [Σ x∘g ; Σ g], each summed over the broadcast axes, with g the gradient of y.
"""

import abc
import typing
from typing import Any

import tensorflow as tf

from kfac._types import Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg.tensor_ops import outer_product


def per_example_sum(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums an example's gradient over the axes along which a parameter was broadcast.

    Args:
      values: [N, ...], what the gradient would be had the parameter the shape of an example.
      shape: The parameter's; it broadcasts to an example from the right, or, with an axis of size
        1 for the batch, to the whole batch.

    Returns:
      [N, number of entries of the parameter].
    """
    rank = values.shape.rank
    padded = (1,) * (rank - len(shape)) + tuple(shape)
    axes = [axis for axis in range(1, rank) if padded[axis] == 1]
    return tf.reshape(tf.reduce_sum(values, axis=axes), [-1, _product(shape)])


def _product(shape: tuple[int, ...]) -> int:
    return int(tf.TensorShape(shape).num_elements())


class _ScaleAndShiftFactor(FisherFactor, abc.ABC):
    """What the two factors share: the gradients r of each example."""

    def __init__(
        self,
        tensors: Sources,
        shapes: tuple[tuple[int, ...], ...],
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables yet.

        Args:
          tensors: (x [N, ...], g [N, ...]) by [source][tower].
          shapes: Shape of the scale, and that of the shift if there is one.
          devices: Where each tower's share is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config)
        self._shapes = shapes

    @property
    def dimension(self) -> int:
        """Number of all entries of scale and shift."""
        return sum(map(_product, self._shapes))

    def _example_gradients(self, tensors: tuple[Tensor, Tensor]) -> Tensor:
        """Returns r [N, dimension]."""
        x, g = (tf.cast(t, self.dtype) for t in tensors)
        parts = [per_example_sum(x * g, self._shapes[0])]
        parts += [per_example_sum(g, shape) for shape in self._shapes[1:]]
        return tf.concat(parts, axis=1)


@typing.final
class ScaleAndShiftFullFactor(_ScaleAndShiftFactor, MatrixFactor):
    """E[r rᵀ]."""

    def _tower_moment(self, tensors: Any) -> Moment:
        r = self._example_gradients(tensors)
        return Moment(outer_product(r), tf.shape(r)[0])


@typing.final
class ScaleAndShiftDiagonalFactor(_ScaleAndShiftFactor, DiagonalFactor):
    """E[r²]."""

    def _tower_moment(self, tensors: Any) -> Moment:
        r = self._example_gradients(tensors)
        return Moment(tf.reduce_sum(r**2, axis=0), tf.shape(r)[0])
