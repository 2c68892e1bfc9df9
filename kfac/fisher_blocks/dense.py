"""The blocks of dense layers, embeddings among them.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3.
"""

import typing
from collections.abc import Sequence
from typing import Any

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, as_tuple
from kfac.fisher_blocks.kronecker import KroneckerBlock, TwoFactorBlock
from kfac.fisher_blocks.single import SingleFactorBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.dense import (
    DiagonalKroneckerFactor,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
)


class DenseForm(typing.NamedTuple):
    """Which forms the two factors of a dense layer have.

    Attributes:
      diagonal_input: Whether only the diagonal of A is kept.
      diagonal_output: Whether only the diagonal of G is kept.
      dense_inputs: Whether inputs are vectors rather than the numbers of one-hot vectors.
    """

    diagonal_input: bool = False
    diagonal_output: bool = False
    dense_inputs: bool = True


class DenseFactorsBlock(TwoFactorBlock):
    """A = E[a aᵀ] and G = E[g gᵀ] of inputs a (with a trailing 1 for the bias) and gradients g."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        form: DenseForm = DenseForm(),  # noqa: B008
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
          form: Which forms the factors have.
        """
        super().__init__(layer_collection, params)
        self._form = form

    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        name = f"{self.name}/input"
        make = self._factor_maker.make_or_get_factor
        if not self._form.diagonal_input:
            whole = (inputs, self.has_bias, self.devices)
            return make(FullyConnectedKroneckerFactor, whole, name=name)
        weight = as_tuple(self.params)[0]
        depth = None if self._form.dense_inputs else int(weight.shape[0])
        dtype = weight.dtype.base_dtype
        args = (inputs, depth, self.has_bias, dtype, self.devices)
        return make(DiagonalKroneckerFactor, args, name=name)

    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        name = f"{self.name}/output"
        make = self._factor_maker.make_or_get_factor
        if not self._form.diagonal_output:
            whole = (gradients, False, self.devices)
            return make(FullyConnectedKroneckerFactor, whole, name=name)
        dtype = as_tuple(self.params)[0].dtype.base_dtype
        args = (gradients, None, False, dtype, self.devices)
        return make(DiagonalKroneckerFactor, args, name=name)


@typing.final
class FullyConnectedKFACBasicFB(DenseFactorsBlock, KroneckerBlock):
    """The Kronecker block of a dense layer that is applied once to an example."""

    @property
    def settings(self) -> tuple[Any, ...]:
        """Forms of the factors."""
        return () if self._form == DenseForm() else (self._form,)

    def replications(self) -> Scalar:
        """Returns 1."""
        return 1


@typing.final
class FullyConnectedDiagonalFB(SingleFactorBlock):
    """The diagonal of E[(a gᵀ)²]."""

    @property
    def settings(self) -> tuple[Any, ...]:
        """There is nothing to set."""
        return ()

    @property
    def is_diagonal(self) -> bool:
        """Returns True."""
        return True

    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        args = self._inputs_and_gradients(grads_list), self.has_bias, self.devices
        make = self._factor_maker.make_or_get_factor
        return make(FullyConnectedDiagonalFactor, args, name=self.name)
