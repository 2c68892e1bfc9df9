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
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.kronecker import KroneckerBlock, TwoFactorBlock
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
from kfac.patches.extraction import ConvGeometry, num_locations, spatial_sizes


class ConvForm(typing.NamedTuple):
    """The form of the input factor of a convolution.

    `uncorrelated` assumes that activations of different pixels are uncorrelated (SUA). `patch_mask`
    multiplies every patch; None means 1.
    """

    uncorrelated: bool = False
    sampling: Sampling = Sampling()
    patch_mask: PatchMask | None = None


class ConvolutionBlock(TwoFactorBlock):
    """A block of two factors of a convolution; `form` is that of the input factor."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        form: ConvForm = ConvForm(),  # noqa: B008
    ) -> None:
        super().__init__(layer_collection, params)
        self._geometry = geometry
        self._form = form

    @property
    def settings(self) -> tuple[Any, ...]:
        """The geometry, and the form of the input factor."""
        return self._geometry, self._form

    def replications(self) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the image size is not static."""
        return num_locations(spatial_sizes(self.inputs[0], self._geometry), self._geometry)

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        make, form = self.factor_maker.make_or_get_factor, self._form
        cls: Callable[..., FisherFactor] = ConvInputKroneckerFactor
        args: tuple[Any, ...] = (self.inputs,), self._geometry, self.has_bias, self.devices
        if form.uncorrelated:
            cls = ConvInputSUAKroneckerFactor
        else:
            args = *args, form.sampling, form.patch_mask
        a = make(cls, args, name=f"{self.name}/input")
        args = gradients, self._geometry, self.devices
        return a, make(ConvOutputKroneckerFactor, args, name=f"{self.name}/output")


@typing.final
class ConvKFCBasicFB(ConvolutionBlock, KroneckerBlock):
    """T·A⊗G, for a convolution that is applied once to an example.

    Parameters are a filter [..., channels, outputs], or (filter, bias [outputs]).
    """

    product_or_identity = KroneckerBlock._kept_or_identity


@typing.final
class DepthwiseConvKFCBasicFB(ConvolutionBlock, KroneckerBlock):
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

    @staticmethod
    def _as_parameters(template: Parameters, matrix: Tensor) -> Parameters:
        height, width, channels, multiplier = template.shape.as_list()
        embedded = tf.reshape(matrix, [height * width, channels, channels, multiplier])
        return tf.reshape(tf.einsum("kccm->kcm", embedded), template.shape)

    def full_fisher_block(self) -> Tensor:
        """Returns the rows and columns of T·A⊗G that belong to the filter, undamped."""
        numbers = tf.reshape(
            tf.range(self.matrix_shape[0] * self.matrix_shape[1]), self.matrix_shape
        )
        own = tf.reshape(self._as_parameters(self.params, numbers), [-1])
        return tf.gather(tf.gather(super().full_fisher_block(), own), own, axis=1)


class _ConvDiagonalBlock(DiagonalBlock):
    """A diagonal block of a convolution; `patch_mask` multiplies every patch, None means 1."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        patch_mask: PatchMask | None = None,
    ) -> None:
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
