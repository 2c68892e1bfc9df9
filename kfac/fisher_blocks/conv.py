"""The blocks of convolutions.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3 and §4.2.
"""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.kronecker import KroneckerBlock, TwoFactorBlock
from kfac.fisher_blocks.single import SingleFactorBlock
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
    """How the input factor of a convolution is made.

    Attributes:
      uncorrelated: Whether activations of different pixels are taken to be uncorrelated (SUA).
      sampling: Which part of the data is used.
      patch_mask: Multiplies every patch; None means 1.
    """

    uncorrelated: bool = False
    sampling: Sampling = Sampling()
    patch_mask: PatchMask | None = None


class ConvFactorsBlock(TwoFactorBlock):
    """A = E[p pᵀ] and G = E[g gᵀ] of patches p and output gradients g, over all locations."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        form: ConvForm = ConvForm(),  # noqa: B008
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The filter [..., channels, outputs], or (filter, bias [outputs]).
          geometry: How the filter slides.
          form: How the input factor is made.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry
        self._form = form

    def _locations(self, images: Tensor) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the size is not static."""
        return num_locations(spatial_sizes(images, self._geometry), self._geometry)

    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        args = (inputs, self._geometry, self.has_bias, self.devices)
        name = f"{self.name}/input"
        if self._form.uncorrelated:
            return self._factor_maker.make_or_get_factor(
                ConvInputSUAKroneckerFactor, args, name=name
            )
        return self._factor_maker.make_or_get_factor(
            ConvInputKroneckerFactor, (*args, self._form.sampling, self._form.patch_mask), name=name
        )

    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        args = (gradients, self._geometry, self.devices)
        return self._factor_maker.make_or_get_factor(
            ConvOutputKroneckerFactor, args, name=f"{self.name}/output"
        )


@typing.final
class ConvKFCBasicFB(ConvFactorsBlock, KroneckerBlock):
    """The Kronecker block of a convolution that is applied once to an example."""

    @property
    def settings(self) -> tuple[Any, ...]:
        """How the filter slides and how the input factor is made."""
        return self._geometry, self._form

    def replications(self) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the image size is not static."""
        return self._locations(self.inputs[0])


@typing.final
class DepthwiseConvKFCBasicFB(ConvFactorsBlock, KroneckerBlock):
    """The Kronecker block of a filter [h, w, channels, m], each channel to m outputs of its own.

    The filter is taken for an ordinary one, [h, w, channels, channels · m], with zeros where input
    and output channel do not match. A vector is written into such a filter, multiplied by its
    block, and read back from there. So products by powers e and −e do not undo one another.
    """

    @property
    def settings(self) -> tuple[Any, ...]:
        """How the filter slides."""
        return (self._geometry,)

    def replications(self) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the image size is not static."""
        return self._locations(self.inputs[0])

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows of A and of G: h · w · channels and channels · m."""
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


class _ConvDiagonalBlock(SingleFactorBlock):
    """What diagonal blocks of convolutions share."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        patch_mask: PatchMask | None = None,
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The filter, or (filter, bias).
          geometry: How the filter slides.
          patch_mask: Multiplies every patch; None means 1.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry
        self._patch_mask = patch_mask

    @property
    def settings(self) -> tuple[Any, ...]:
        """How the filter slides, and the mask."""
        return self._geometry, self._patch_mask

    @property
    def is_diagonal(self) -> bool:
        """Returns True."""
        return True


@typing.final
class ConvDiagonalFB(_ConvDiagonalBlock):
    """Diagonal of the mean over examples of (Σ_locations p gᵀ)²."""

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        tensors = self._inputs_and_gradients(grads_list)
        args = (tensors, self._geometry, self.has_bias, self.devices, self._patch_mask)
        return self._factor_maker.make_or_get_factor(ConvDiagonalFactor, args, name=self.name)


@typing.final
class DepthwiseConvDiagonalFB(_ConvDiagonalBlock):
    """The same for a filter [h, w, channels, m] that maps each channel to m outputs of its own."""

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        args = (self._inputs_and_gradients(grads_list), self._geometry, self.devices)
        make = self._factor_maker.make_or_get_factor
        return make(DepthwiseConvDiagonalFactor, args, name=self.name)
