"""Factors of layers that scale and shift each entry, such as the end of a normalization.

In a layer y = x∘γ + β, γ and β may be broadcast over axes of x. The gradient of an example is r =
[Σ x∘g ; Σ g], each summed over the broadcast axes, where g is the gradient of y.

Both factors take the arguments of `FisherFactor`, and:

  tensors: (x [N, ...], g [N, ...]).
  shapes: Shape of the scale, and that of the shift if there is one.
"""

import math
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg import tensor_ops
from kfac.linalg.shared import all_sizes, shared

Shapes = tuple[tuple[int, ...], ...]
"""Shape of the scale, and that of the shift if there is one."""


def per_example_sum(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums an example's gradient over the axes along which a parameter was broadcast.

    `values` [N, ...] are the gradient of a parameter of the shape of an example. The parameter's
    own `shape` broadcasts to an example from the right or, with an axis of size 1 for the batch, to
    the whole batch.

    Returns:
      [N, number of entries of the parameter].
    """
    rank = values.shape.rank
    padded = (1,) * (rank - len(shape)) + tuple(shape)
    axes = [axis for axis in range(1, rank) if padded[axis] == 1]
    sums, size = tf.reduce_sum(values, axis=axes), math.prod(shape)
    is_flat = sums.shape.rank == 2 and tensor_ops.static_size(sums, 1) == size
    return sums if is_flat else tf.reshape(sums, [-1, size])


def _example_gradients(tensors: Sequence[Tensor], shapes: Shapes, dtype: DType) -> Tensor:
    """Returns r [N, entries of scale and shift]."""
    x, g = (tf.cast(t, dtype) for t in tensors)
    parts = [per_example_sum(x * g, shapes[0])]
    parts += [per_example_sum(g, shape) for shape in shapes[1:]]
    return tf.concat(parts, axis=1)


class _ScaleAndShiftFactor(FisherFactor):
    """A factor of r."""

    def __init__(
        self,
        tensors: Sources,
        shapes: Shapes,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._shapes = shapes

    @property
    def dimension(self) -> int:
        """Number of all entries of scale and shift."""
        return sum(map(math.prod, self._shapes))


@typing.final
class ScaleAndShiftFullFactor(_ScaleAndShiftFactor, MatrixFactor):
    """E[r rᵀ]."""

    def _tower_moment(self, tensors: Any) -> Moment:
        r = _example_gradients(tensors, self._shapes, self.dtype)
        return Moment(tensor_ops.outer_product(r), tensor_ops.num_rows(r))


@typing.final
class ScaleAndShiftDiagonalFactor(_ScaleAndShiftFactor, DiagonalFactor):
    """E[r²]."""

    def _tower_moment(self, tensors: Any) -> Moment:
        squares = _sum_of_squares(*tensors, shapes=self._shapes, dtype=self.dtype)
        return Moment(squares, tensor_ops.num_rows(tensors[0]))


@shared(sizes=all_sizes)
def _sum_of_squares(x: Tensor, g: Tensor, *, shapes: Shapes, dtype: DType) -> Tensor:
    """Returns Σ r² [entries of scale and shift] over the examples."""
    r = _example_gradients((x, g), shapes, dtype)
    return tf.reduce_sum(tf.square(r), axis=0)
