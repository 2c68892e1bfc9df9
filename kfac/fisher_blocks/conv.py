"""The blocks of convolutions: statistics, damping and products.

p is the patch that the filter W sees at one of T locations, with a trailing 1 if there is a bias,
and g the gradient of the output at that location. The gradient of W is Σ_locations V with the
matrices V = p gᵀ [patch, outputs].

  Statistics   F ≈ T·A⊗G with A = E[p pᵀ] and G = E[g gᵀ] over locations   Grosse & Martens §3
  Damping      λ' = λ/T of each location, split as for dense layers        Martens & Grosse §6.3
  Products     F⁻¹ vec(V) = vec((A + π√λ'·I)⁻¹ V (G + √λ'/π·I)⁻¹) / T      Martens & Grosse §4.2

`kfac.fisher_factors.conv` computes the means, `kronecker` the damping and the products.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3 and §4.2.
  Martens & Grosse (2015), arXiv:1503.05671.
"""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, FisherBlock
from kfac.fisher_blocks.kronecker import KroneckerBlock, KroneckerProduct, SplitDamping
from kfac.fisher_blocks.single import DiagonalBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.conv import (
    ConvDiagonalFactor,
    ConvInputKroneckerFactor,
    ConvOutputKroneckerFactor,
    DepthwiseConvDiagonalFactor,
    PatchMask,
    Sampling,
)
from kfac.fisher_factors.sua import ConvInputSUAKroneckerFactor
from kfac.patches.geometry import ConvGeometry, num_locations, spatial_sizes


class ConvForm(typing.NamedTuple):
    """The form of the input factor of a convolution.

    `uncorrelated` assumes that activations of different pixels are uncorrelated (SUA). `patch_mask`
    multiplies every patch; None means 1.
    """

    uncorrelated: bool = False
    sampling: Sampling = Sampling()
    patch_mask: PatchMask | None = None


def make_input_factor(block: FisherBlock, geometry: ConvGeometry, form: ConvForm) -> FisherFactor:
    """Returns A = E[p pᵀ] of the block's inputs, a new factor or an equal earlier one."""
    args = (block.inputs,), geometry, block.has_bias, block.devices
    name = f"{block.name}/input"
    make = block.factor_maker.make_or_get_factor
    if form.uncorrelated:
        return make(ConvInputSUAKroneckerFactor, args, name=name)
    return make(ConvInputKroneckerFactor, (*args, form.sampling, form.patch_mask), name=name)


def make_output_factor(
    block: FisherBlock, geometry: ConvGeometry, gradients: Sources
) -> FisherFactor:
    """Returns G = E[g gᵀ] of gradients by [source][tower], a new factor or an equal earlier one."""
    args = gradients, geometry, block.devices
    make = block.factor_maker.make_or_get_factor
    return make(ConvOutputKroneckerFactor, args, name=f"{block.name}/output")


def count_locations(images: Tensor, geometry: ConvGeometry) -> Scalar:
    """Returns T, the number of output locations; a Tensor if the image size is not static."""
    return num_locations(spatial_sizes(images, geometry), geometry)


def make_conv_product(
    block: KroneckerBlock,
    geometry: ConvGeometry,
    form: ConvForm,
    gradients: Sources,
    damping: Scalar,
) -> KroneckerProduct:
    """Returns the damped block T·A⊗G of a convolution whose towers have registered."""
    # Statistics: A and G.
    a = make_input_factor(block, geometry, form)
    factors = a, make_output_factor(block, geometry, gradients)
    # Damping: π√λ' for A and √λ'/π for G.
    times, config = block.replications, block.factor_maker.config
    split = SplitDamping(block.name, factors, damping, times, config)
    # Products: (T·A⊗G)^e vec(V) = T^e vec(A^e V G^e).
    return KroneckerProduct(factors, split, times)


class _ConvKroneckerBlock(KroneckerBlock):
    """T·A⊗G of a convolution."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        form: ConvForm = ConvForm(),  # noqa: B008
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The filter, or (filter, bias).
          geometry: Geometry of the filter.
          form: The form of the input factor.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry
        self._form = form

    @property
    def settings(self) -> tuple[Any, ...]:
        """The geometry, and the form of the input factor."""
        return self._geometry, self._form

    def replications(self) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the image size is not static."""
        return count_locations(self.inputs[0], self._geometry)

    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        return make_conv_product(self, self._geometry, self._form, gradients, damping)


@typing.final
class ConvKFCBasicFB(_ConvKroneckerBlock):
    """T·A⊗G, for a convolution that is applied once to an example.

    Parameters are a filter [..., channels, outputs], or (filter, bias [outputs]).
    """

    product_or_identity = KroneckerBlock._kept_or_identity


@typing.final
class DepthwiseConvKFCBasicFB(_ConvKroneckerBlock):
    """T·A⊗G for a filter [h, w, channels, m] that maps each channel to m outputs of its own.

    The filter is written as an ordinary one, [h, w, channels, channels · m], with zeros where input
    and output channel do not match. A vector is expanded to such a filter, multiplied by its block,
    and reduced again. So products by powers e and −e are not inverse to each other.
    """

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows of A and of G, h · w · channels and channels · m."""
        height, width, channels, multiplier = self.params.shape.as_list()
        return height * width * channels, channels * multiplier

    def _as_matrix(self, vector: Parameters) -> Tensor:
        height, width, channels, multiplier = self.params.shape.as_list()
        filters = tf.reshape(vector, [height * width, channels, multiplier])
        same = tf.eye(channels, dtype=filters.dtype)
        return tf.reshape(tf.einsum("kcm,cd->kcdm", filters, same), self.matrix_shape)

    def _as_parameters(self, matrix: Tensor) -> Parameters:
        height, width, channels, multiplier = self.params.shape.as_list()
        embedded = tf.reshape(matrix, [height * width, channels, channels, multiplier])
        return tf.reshape(tf.einsum("kccm->kcm", embedded), self.params.shape)

    def full_fisher_block(self) -> Tensor:
        """Returns the rows and columns of T·A⊗G that belong to the filter, undamped."""
        numbers = tf.reshape(
            tf.range(self.matrix_shape[0] * self.matrix_shape[1]), self.matrix_shape
        )
        own = tf.reshape(self._as_parameters(numbers), [-1])
        return tf.gather(tf.gather(super().full_fisher_block(), own), own, axis=1)


class _ConvDiagonalBlock(DiagonalBlock):
    """A diagonal block of a convolution."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        patch_mask: PatchMask | None = None,
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The filter, or (filter, bias).
          geometry: Geometry of the filter.
          patch_mask: Multiplier of every patch; None means 1.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry
        self._patch_mask = patch_mask

    @property
    def settings(self) -> tuple[Any, ...]:
        """The geometry, and the mask."""
        return self._geometry, self._patch_mask


@typing.final
class ConvDiagonalFB(_ConvDiagonalBlock):
    """Diagonal of the mean over examples of (Σ_locations p gᵀ)²."""

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        tensors = self._inputs_and_gradients(grads_list)
        args = (tensors, self._geometry, self.has_bias, self.devices, self._patch_mask)
        return self.factor_maker.make_or_get_factor(ConvDiagonalFactor, args, name=self.name)


@typing.final
class DepthwiseConvDiagonalFB(_ConvDiagonalBlock):
    """The diagonal for a filter [h, w, channels, m] that maps each channel to m own outputs."""

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        args = (self._inputs_and_gradients(grads_list), self._geometry, self.devices)
        make = self.factor_maker.make_or_get_factor
        return make(DepthwiseConvDiagonalFactor, args, name=self.name)
