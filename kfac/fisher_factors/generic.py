"""Factors for parameters of any kind: the outer product or the square of their whole gradient.

The gradient is that of the loss summed over the batch, so these factors see one vector per batch,
not one per example. This is a rough estimate, for parameters that fit no other block.

Both factors take the arguments of `FisherFactor`, and:

  tensors: By source, one entry with the gradients of all parameters: gradients of the sum of the
    losses of all towers.
  batch_size: Number of examples of all towers together, an int or an int Tensor [].
  devices: One entry: the device of the statistic.
"""

import typing

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.fisher_factors.moment import Moment
from kfac.linalg.tensor_ops import as_scalar


def _num_entries(tensors: Sources) -> int:
    """Returns the number of all entries of all parameters."""
    return sum(g.shape.num_elements() for g in tensors[0][0])


def _flat_gradient(tensors: tuple[Tensor, ...], dtype: DType) -> Tensor:
    """Returns ĝ, the gradients of all parameters as one vector."""
    return tf.concat([tf.reshape(tf.cast(g, dtype), [-1]) for g in tensors], axis=0)


@typing.final
class NaiveFullFactor(MatrixFactor):
    """ĝĝᵀ / N."""

    def __init__(
        self,
        tensors: Sources,
        batch_size: Scalar,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Number of all entries of all parameters."""
        return _num_entries(self._tensors)

    def _tower_moment(self, tensors: tuple[Tensor, ...]) -> Moment:
        gradient = _flat_gradient(tensors, self.dtype)[:, tf.newaxis]
        total = tf.matmul(gradient, gradient, transpose_b=True)
        return Moment(total, as_scalar(self._batch_size, self.dtype))


@typing.final
class NaiveDiagonalFactor(DiagonalFactor):
    """ĝ² / N."""

    def __init__(
        self,
        tensors: Sources,
        batch_size: Scalar,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        super().__init__(tensors, devices, name, config)
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Number of all entries of all parameters."""
        return _num_entries(self._tensors)

    def _tower_moment(self, tensors: tuple[Tensor, ...]) -> Moment:
        total = _flat_gradient(tensors, self.dtype) ** 2
        return Moment(total, as_scalar(self._batch_size, self.dtype))
