"""Blocks that are diagonal in the eigenbases of their Kronecker factors (EKFAC).

F ≈ (U_A⊗U_G) diag(s) (U_A⊗U_G)ᵀ, with the eigenvectors of A and G, and s the second moments of the
entries of each example's gradient in the basis of the eigenvectors. Of all matrices with these
eigenvectors, this one is nearest to the Fisher block. The statistics are in
`kfac.fisher_factors.eigenbasis`.

References:
  George, Laurent, Bouthillier, Ballas & Vincent (2018), arXiv:1806.03884, §3.
"""

import abc
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks import conv, dense
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.dense import DenseForm
from kfac.fisher_blocks.kronecker import TwoFactorBlock
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.eigenbasis import (
    ConvEigenbasisFactor,
    EigenbasisFactor,
    FullyConnectedEigenbasisFactor,
)
from kfac.fisher_factors.slot import Damping
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.kronecker import kronecker_product
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars
from kfac.patches.geometry import ConvGeometry


class EigenbasisFactors(typing.NamedTuple):
    """The factors of a block: A, G, and s, which keeps the bases of A and G too."""

    input: FisherFactor
    output: FisherFactor
    eigenbasis: EigenbasisFactor


class EigenbasisBlock(TwoFactorBlock):
    """F = U diag(s) Uᵀ with U = U_A⊗U_G, damped by λ.

    λ is added to the eigenvalues s themselves. The split damping of A⊗G adds more than λ, so this
    block usually needs a larger λ.

    All functions are available without registration. B = U diag(√(s + λ)) replaces the Cholesky
    factor: BBᵀ is the damped block, but B is not triangular. All products are zero until the bases
    are first computed.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        super().__init__(layer_collection, params)
        self._made: EigenbasisFactors | None = None
        self._damping: Scalar = None

    @abc.abstractmethod
    def _make_factors(self, grads_list: Sequence[Sequence[Tensor]]) -> EigenbasisFactors:
        """Returns A, G and s, each a new factor or an equal earlier one."""

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G, then s, from the layer collection.

        Args:
          grads_list: For each source the gradients of the layer's outputs.
          damping: λ > 0.
        """
        self._damping = damping
        self._made = self._make_factors(grads_list)

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """(A, G, s); empty before they are made."""
        return () if self._made is None else tuple(self._made)

    @property
    def eigenbasis_factor(self) -> EigenbasisFactor:
        """The factor of s, which keeps the bases too.

        Raises:
          ValueError: Factors have not been made yet.
        """
        if self._made is None:
            raise self._not_instantiated()
        return self._made.eigenbasis

    def describe(self) -> str:
        """Returns a short text such as "ekfac 401x401 (x) 16x16"."""
        return f"ekfac {self._sizes()}"

    def register(self, function: MatrixFunction) -> None:
        """Does nothing: all functions are available."""

    def identity_eigenvalue(self) -> Scalar:
        """Returns T + λ."""
        terms = self.replications(), self._damping
        return sum(known_or_scalars(terms, self.eigenbasis_factor.dtype))

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns U_A ((U_Aᵀ V U_G) ∘ (s + λ)^e) U_Gᵀ, or without the first or last rotation.

        Args:
          function: Function that names the rotations to apply, and its degree e.
          vector: V, shaped as the parameters.
          transpose: True to multiply by the transpose, which has the rotations exchanged.
        """
        scale = self._scale(function.degree)
        sides = function.has_right_vectors, function.has_left_vectors
        rotates_first, rotates_last = reversed(sides) if transpose else sides
        given = self._as_matrix(vector)
        matrix = tf.cast(given, self.eigenbasis_factor.dtype)
        matrix = scale * (self._into_basis(matrix) if rotates_first else matrix)
        matrix = self._out_of_basis(matrix) if rotates_last else matrix
        return self._as_parameters(tf.cast(matrix, given.dtype))

    def full_fisher_block(self) -> Tensor:
        """Returns U diag(s) Uᵀ, undamped, [inputs · outputs, inputs · outputs]."""
        vectors = kronecker_product(*self.eigenbasis_factor.get_bases())
        return tf.matmul(vectors * self.eigenbasis_factor.value, vectors, transpose_b=True)

    def _scale(self, exponent: float) -> Tensor:
        """Returns (s + λ)^e [inputs, outputs]."""
        factor = self.eigenbasis_factor
        damping = Damping(self.name, lambda: {self.name: as_scalar(self._damping, factor.dtype)})
        power = factor.diagonal_power(exponent, damping, factor.dtype)
        return tf.reshape(power, self.matrix_shape)

    def _into_basis(self, matrix: Tensor) -> Tensor:
        bases = self.eigenbasis_factor.get_bases()
        return tf.matmul(bases.input, matrix, transpose_a=True) @ bases.output

    def _out_of_basis(self, matrix: Tensor) -> Tensor:
        bases = self.eigenbasis_factor.get_bases()
        return bases.input @ tf.matmul(matrix, bases.output, transpose_b=True)


@typing.final
class FullyConnectedEKFACFB(EigenbasisBlock):
    """The block of a dense layer that is applied once to an example."""

    settings = ()

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
          form: The forms of A and G.
        """
        super().__init__(layer_collection, params)
        self._form = form

    def replications(self) -> Scalar:
        """Returns 1."""
        return 1

    def _make_factors(self, grads_list: Sequence[Sequence[Tensor]]) -> EigenbasisFactors:
        gradients = self._gradients_by_tower(grads_list)
        a = dense.make_input_factor(self, self._form)
        g = dense.make_output_factor(self, self._form, gradients)
        tensors = self._inputs_and_gradients(grads_list)
        args = tensors, (a, g), self.replications(), self.has_bias, self.devices
        make = self.factor_maker.make_or_get_factor
        factor = make(FullyConnectedEigenbasisFactor, args, name=self.name)
        return EigenbasisFactors(a, g, typing.cast(EigenbasisFactor, factor))


@typing.final
class ConvEKFACFB(EigenbasisBlock):
    """The block of a convolution that is applied once to an example."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        form: conv.ConvForm = conv.ConvForm(),  # noqa: B008
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The filter [..., channels, outputs], or (filter, bias [outputs]).
          geometry: Geometry of the filter.
          form: The form of A.
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
        return conv.count_locations(self.inputs[0], self._geometry)

    def _make_factors(self, grads_list: Sequence[Sequence[Tensor]]) -> EigenbasisFactors:
        gradients = self._gradients_by_tower(grads_list)
        a = conv.make_input_factor(self, self._geometry, self._form)
        g = conv.make_output_factor(self, self._geometry, gradients)
        args = (
            self._inputs_and_gradients(grads_list), (a, g), self.replications(), self.has_bias,
            self.devices, self._geometry, self._form.patch_mask,
        )  # fmt: skip
        make = self.factor_maker.make_or_get_factor
        factor = make(ConvEigenbasisFactor, args, name=self.name)
        return EigenbasisFactors(a, g, typing.cast(EigenbasisFactor, factor))
