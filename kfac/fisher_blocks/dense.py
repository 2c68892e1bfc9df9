"""The block of dense layers, s = a·W + b.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3.
"""

import typing
from typing import Any

from kfac._types import Scalar
from kfac.fisher_blocks.kronecker import KroneckerBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.dense import FullyConnectedKroneckerFactor


@typing.final
class FullyConnectedKFACBasicFB(KroneckerBlock):
    """E[a aᵀ] ⊗ E[g gᵀ], with inputs a (and a trailing 1 for the bias) and output gradients g."""

    @property
    def settings(self) -> tuple[Any, ...]:
        """A dense layer has nothing to set."""
        return ()

    def replications(self) -> Scalar:
        """Returns 1: the layer is applied once to an example."""
        return 1

    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        return self._factor_maker.make_or_get_factor(
            FullyConnectedKroneckerFactor,
            (inputs, self.has_bias, self.devices),
            name=f"{self.name}/input",
        )

    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        return self._factor_maker.make_or_get_factor(
            FullyConnectedKroneckerFactor,
            (gradients, False, self.devices),
            name=f"{self.name}/output",
        )
