"""Blocks for parameters of unknown layers, from the gradient of the whole batch.

References:
  Martens & Grosse (2015), arXiv:1503.05671, for the damping.
"""

import typing
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.single import DiagonalBlock, SingleFactorBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.generic import NaiveDiagonalFactor, NaiveFullFactor


class _GenericBlock(SingleFactorBlock):
    """A block that needs only the gradients of its parameters, and the batch size."""

    settings = ()
    _class: ClassVar[type[FisherFactor]]
    devices = ("",)  # No device: the statistic needs the gradients of all towers together.

    def register_additional_tower(self, inputs: Scalar, outputs: Any = None) -> None:
        """Adds one tower's batch size, an int or an int Tensor []."""
        super().register_additional_tower(inputs, outputs)

    def tensors_to_compute_grads(self) -> tuple[Tensor, ...]:
        """Returns the parameters."""
        return as_tuple(self.params)

    def _batch_size(self) -> Scalar:
        """Returns the number of examples of all towers."""
        if all(isinstance(size, int) for size in self.inputs):
            return sum(self.inputs)
        return tf.add_n([tf.convert_to_tensor(size) for size in self.inputs])

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        sources = tuple((tuple(gradients),) for gradients in grads_list)
        args = sources, self._batch_size(), self.devices
        return self.factor_maker.make_or_get_factor(self._class, args, name=self.name)


@typing.final
class NaiveFullFB(_GenericBlock):
    """ĝĝᵀ/N, with the gradient ĝ of the loss summed over the batch."""

    is_diagonal = False
    _class = NaiveFullFactor


@typing.final
class NaiveDiagonalFB(_GenericBlock, DiagonalBlock):
    """ĝ²/N, with the gradient ĝ of the loss summed over the batch."""

    _class = NaiveDiagonalFactor
