"""Factors for parameters of any kind: the outer product or the square of their whole gradient.

The gradient is that of the loss summed over the batch, so these see one vector per batch, not one
per example: a rough estimate, for parameters that fit no other block.
"""

import abc
import typing

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Moment, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg.tensor_ops import as_scalar


class _GenericFactor(FisherFactor, abc.ABC):
    """What the two factors share: gradients ĝ as one vector, over a number of examples."""

    def __init__(
        self,
        tensors: Sources,
        batch_size: Scalar,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes no variables yet.

        Args:
          tensors: By source, one entry with the gradients of all parameters: those of the sum of
            the losses of all towers.
          batch_size: Examples of all towers together, an int or an int Tensor [].
          devices: One entry: where the statistic is computed.
          name: Path of the variables below `kfac/`.
          config: Dtypes and the like; None means the defaults.
        """
        super().__init__(tensors, devices, name, config)
        self._batch_size = batch_size

    @property
    def dimension(self) -> int:
        """Number of all entries of all parameters."""
        return sum(g.shape.num_elements() for g in self._tensors[0][0])

    def _gradient(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """Returns ĝ [dimension]."""
        flat = [tf.reshape(tf.cast(g, self.dtype), [-1]) for g in tensors]
        return tf.concat(flat, axis=0)

    def _count(self) -> Tensor:
        return as_scalar(self._batch_size, self.dtype)


@typing.final
class NaiveFullFactor(_GenericFactor, MatrixFactor):
    """ĝĝᵀ / N."""

    def _tower_moment(self, tensors: tuple[Tensor, ...]) -> Moment:
        gradient = self._gradient(tensors)[:, tf.newaxis]
        return Moment(tf.matmul(gradient, gradient, transpose_b=True), self._count())


@typing.final
class NaiveDiagonalFactor(_GenericFactor, DiagonalFactor):
    """ĝ² / N."""

    def _tower_moment(self, tensors: tuple[Tensor, ...]) -> Moment:
        return Moment(self._gradient(tensors) ** 2, self._count())
