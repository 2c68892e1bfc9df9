"""Factors for parameters of any kind: the outer product or the square of their whole gradient.

The gradient is that of the loss summed over the batch, so these factors see one vector per batch,
not one per example. This is a rough estimate, for parameters that fit no other block.

Both factors take the arguments of `FisherFactor`, and:

  tensors: By source, one entry with the gradients of all parameters: gradients of the sum of the
    losses of all towers.
  batch_size: Number of examples of all towers together, an int or an int Tensor [].
  devices: One entry: the device of the statistic.
"""

import abc
import typing

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg.tensor_ops import as_scalar


class _OfWholeGradient(FisherFactor):
    """A factor of ĝ, the gradients of all parameters as one vector."""

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
        return sum(g.shape.num_elements() for g in self._tensors[0][0])

    @abc.abstractmethod
    def _square(self, gradient: Tensor) -> Tensor:
        """Returns the statistic of one example with a gradient [dimension]."""

    def _tower_moment(self, tensors: tuple[Tensor, ...]) -> Moment:
        flat = [tf.reshape(tf.cast(g, self.dtype), [-1]) for g in tensors]
        total = self._square(tf.concat(flat, axis=0))
        return Moment(total, as_scalar(self._batch_size, self.dtype))


@typing.final
class NaiveFullFactor(_OfWholeGradient, MatrixFactor):
    """ĝĝᵀ / N."""

    def _square(self, gradient: Tensor) -> Tensor:
        column = gradient[:, tf.newaxis]
        return tf.matmul(column, column, transpose_b=True)


@typing.final
class NaiveDiagonalFactor(_OfWholeGradient, DiagonalFactor):
    """ĝ² / N."""

    def _square(self, gradient: Tensor) -> Tensor:
        return gradient**2
