"""Blocks of layers that scale and shift: y = x∘γ + β."""

import typing
from collections.abc import Sequence
from typing import ClassVar

from kfac._types import Tensor
from kfac.fisher_blocks.base import as_tuple
from kfac.fisher_blocks.single import DiagonalBlock, SingleFactorBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.scale_shift import ScaleAndShiftDiagonalFactor, ScaleAndShiftFullFactor


class _ScaleAndShiftBlock(SingleFactorBlock):
    """A block whose parameters are the scale, or (scale, shift)."""

    settings = ()
    _class: ClassVar[type[FisherFactor]]

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        tensors = self._inputs_and_gradients(grads_list)
        shapes = tuple(tuple(param.shape.as_list()) for param in as_tuple(self.params))
        args = tensors, shapes, self.devices
        return self.factor_maker.make_or_get_factor(self._class, args, name=self.name)


@typing.final
class ScaleAndShiftFullFB(_ScaleAndShiftBlock):
    """E[r rᵀ] of each example's gradient r of scale and shift."""

    is_diagonal = False
    _class = ScaleAndShiftFullFactor


@typing.final
class ScaleAndShiftDiagonalFB(_ScaleAndShiftBlock, DiagonalBlock):
    """E[r²] of each example's gradient r of scale and shift."""

    _class = ScaleAndShiftDiagonalFactor
