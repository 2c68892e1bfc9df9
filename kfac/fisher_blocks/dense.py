"""The blocks of dense layers s = Wᵀā, embeddings among them: statistics, damping and products.

ā is the layer's input, with a trailing 1 if there is a bias, and g the gradient of its output s.
The gradient of W is the matrix V = ā gᵀ [inputs, outputs].

  Statistics   F = E[vec(V) vec(V)ᵀ] ≈ A⊗G with A = E[ā āᵀ] and G = E[g gᵀ]         §3
  Damping      (A + π√λ·I) ⊗ (G + √λ/π·I), π = √((tr A / dim A) / (tr G / dim G))   §6.3
  Products     F⁻¹ vec(V) = vec((A + π√λ·I)⁻¹ V (G + √λ/π·I)⁻¹)                      §4.2

A layer that is applied T times to an example has the block T·A⊗G if its uses are taken to be
independent; see `kfac.fisher_blocks.multi`. `kfac.fisher_factors.dense` computes the means,
`kronecker` the damping and the products.

References:
  Martens & Grosse (2015), arXiv:1503.05671.
"""

import typing
from collections.abc import Sequence
from typing import Any

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, as_tuple
from kfac.fisher_blocks.kronecker import KroneckerBlock, TwoFactorBlock
from kfac.fisher_blocks.single import DiagonalBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.dense import (
    DiagonalKroneckerFactor,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
)


class DenseForm(typing.NamedTuple):
    """The forms of the two factors of a dense layer.

    The diagonal forms keep only the diagonal of A, or of G. Inputs are vectors if `dense_inputs`,
    else numbers of one-hot vectors.
    """

    diagonal_input: bool = False
    diagonal_output: bool = False
    dense_inputs: bool = True


class DenseBlock(TwoFactorBlock):
    """A block of two factors of a dense layer that is applied once to an example."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        form: DenseForm = DenseForm(),  # noqa: B008
    ) -> None:
        super().__init__(layer_collection, params)
        self._form = form

    def replications(self) -> Scalar:
        """Returns 1."""
        return 1

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        form, weight = self._form, as_tuple(self.params)[0]
        ids = None if form.dense_inputs else int(weight.shape[:-1].num_elements())
        a = self._make_side("input", (self.inputs,), form.diagonal_input, ids, self.has_bias)
        return a, self._make_side("output", gradients, form.diagonal_output, None, False)

    def _make_side(
        self, side: str, tensors: Sources, is_diagonal: bool, ids: int | None, has_bias: bool
    ) -> FisherFactor:
        make, name = self.factor_maker.make_or_get_factor, f"{self.name}/{side}"
        if not is_diagonal:
            args: tuple[Any, ...] = tensors, has_bias, self.devices
            return make(FullyConnectedKroneckerFactor, args, name=name)
        dtype = as_tuple(self.params)[0].dtype.base_dtype
        args = tensors, ids, has_bias, dtype, self.devices
        return make(DiagonalKroneckerFactor, args, name=name)


@typing.final
class FullyConnectedKFACBasicFB(DenseBlock, KroneckerBlock):
    """A⊗G, for a dense layer that is applied once to an example."""

    product_or_identity = KroneckerBlock._kept_or_identity

    @property
    def settings(self) -> tuple[Any, ...]:
        """Forms of the factors."""
        return () if self._form == DenseForm() else (self._form,)


@typing.final
class FullyConnectedDiagonalFB(DiagonalBlock):
    """The diagonal of E[vec(V) vec(V)ᵀ]."""

    settings = ()

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        args = self._inputs_and_gradients(grads_list), self.has_bias, self.devices
        make = self.factor_maker.make_or_get_factor
        return make(FullyConnectedDiagonalFactor, args, name=self.name)
