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
from kfac.fisher_blocks.base import FactorMaker, FisherBlock, as_tuple
from kfac.fisher_blocks.kronecker import KroneckerBlock, KroneckerProduct, SplitDamping
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


def make_input_factor(block: FisherBlock, form: DenseForm) -> FisherFactor:
    """Returns A = E[ā āᵀ] of the block's inputs, or its diagonal, as a new or an equal factor."""
    inputs, name = (block.inputs,), f"{block.name}/input"
    make = block.factor_maker.make_or_get_factor
    if not form.diagonal_input:
        args: tuple[Any, ...] = inputs, block.has_bias, block.devices
        return make(FullyConnectedKroneckerFactor, args, name=name)
    weight = as_tuple(block.params)[0]
    depth = None if form.dense_inputs else int(weight.shape[:-1].num_elements())
    args = inputs, depth, block.has_bias, weight.dtype.base_dtype, block.devices
    return make(DiagonalKroneckerFactor, args, name=name)


def make_output_factor(block: FisherBlock, form: DenseForm, gradients: Sources) -> FisherFactor:
    """Returns G = E[g gᵀ] of g by [source][tower], or its diagonal, as a new or an equal factor."""
    name = f"{block.name}/output"
    make = block.factor_maker.make_or_get_factor
    if not form.diagonal_output:
        args: tuple[Any, ...] = gradients, False, block.devices
        return make(FullyConnectedKroneckerFactor, args, name=name)
    dtype = as_tuple(block.params)[0].dtype.base_dtype
    args = gradients, None, False, dtype, block.devices
    return make(DiagonalKroneckerFactor, args, name=name)


def make_dense_product(
    block: KroneckerBlock, form: DenseForm, gradients: Sources, damping: Scalar
) -> KroneckerProduct:
    """Returns the damped block T·A⊗G of a dense layer whose towers have registered."""
    # Statistics: A and G.
    factors = make_input_factor(block, form), make_output_factor(block, form, gradients)
    # Damping: π√λ for A and √λ/π for G.
    times, config = block.replications, block.factor_maker.config
    split = SplitDamping(block.name, factors, damping, times, config)
    # Products: (T·A⊗G)^e vec(V) = T^e vec(A^e V G^e).
    return KroneckerProduct(factors, split, times)


@typing.final
class FullyConnectedKFACBasicFB(KroneckerBlock):
    """A⊗G, for a dense layer that is applied once to an example."""

    product_or_identity = KroneckerBlock._kept_or_identity

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        form: DenseForm = DenseForm(),  # noqa: B008
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The layer's weight, or (weight, bias).
          form: The forms of the factors.
        """
        super().__init__(layer_collection, params)
        self._form = form

    @property
    def settings(self) -> tuple[Any, ...]:
        """Forms of the factors."""
        return () if self._form == DenseForm() else (self._form,)

    def replications(self) -> Scalar:
        """Returns 1."""
        return 1

    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        return make_dense_product(self, self._form, gradients, damping)


@typing.final
class FullyConnectedDiagonalFB(DiagonalBlock):
    """The diagonal of E[vec(V) vec(V)ᵀ]."""

    settings = ()

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        args = self._inputs_and_gradients(grads_list), self.has_bias, self.devices
        make = self.factor_maker.make_or_get_factor
        return make(FullyConnectedDiagonalFactor, args, name=self.name)
