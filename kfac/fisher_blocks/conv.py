"""The block of convolutions, channels last.

References:
  Grosse & Martens (2016), arXiv:1602.01407, §3 and §4.2.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac import linalg
from kfac._types import Parameters, Scalar
from kfac.conv_geometry import ConvGeometry, num_locations
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.kronecker import KroneckerBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.conv import ConvInputKroneckerFactor, ConvOutputKroneckerFactor


@typing.final
class ConvKFCBasicFB(KroneckerBlock):
    """T·E[p pᵀ] ⊗ E[g gᵀ], with patches p and output gradients g at each of T locations."""

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, geometry: ConvGeometry
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The filter [rows, columns, channels, outputs], or (filter, bias [outputs]).
          geometry: How the filter slides.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry

    @property
    def settings(self) -> tuple[Any, ...]:
        """How the filter slides."""
        return (self._geometry,)

    def replications(self) -> Scalar:
        """Returns T, the number of output locations; a Tensor if the image size is not static."""
        images = self.inputs[0]
        height, width = (linalg.static_size(images, axis) for axis in (1, 2))
        if height is None or width is None:
            height, width = tf.unstack(tf.shape(images)[1:3])
        return num_locations(height, width, self._geometry)

    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        return self._factor_maker.make_or_get_factor(
            ConvInputKroneckerFactor,
            (inputs, self._geometry, self.has_bias, self.devices),
            name=f"{self.name}/input",
        )

    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        return self._factor_maker.make_or_get_factor(
            ConvOutputKroneckerFactor, (gradients, self.devices), name=f"{self.name}/output"
        )
