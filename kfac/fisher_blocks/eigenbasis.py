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
from kfac.fisher_blocks.conv import ConvolutionBlock
from kfac.fisher_blocks.dense import DenseBlock
from kfac.fisher_blocks.kronecker import TwoFactorBlock, as_text
from kfac.fisher_factors.eigenbasis import (
    ConvEigenbasisFactor,
    EigenbasisFactor,
    FullyConnectedEigenbasisFactor,
)
from kfac.fisher_factors.kept import Damping
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars, kronecker_product


class EigenbasisBlock(TwoFactorBlock):
    """F = U diag(s) Uᵀ with U = U_A⊗U_G, damped by λ.

    λ is added to the eigenvalues s themselves. The split damping of A⊗G adds more than λ, so this
    block usually needs a larger λ.

    All functions are available without registration. B = U diag(√(s + λ)) replaces the Cholesky
    factor: BBᵀ is the damped block, but B is not triangular. All products are zero until the bases
    are first computed.
    """

    @abc.abstractmethod
    def _eigenbasis_class(self) -> tuple[type[EigenbasisFactor], tuple[Any, ...]]:
        """Returns the class of s, and its arguments beyond those of `EigenbasisFactor`."""

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G, then s, its factors; see `FisherBlock.instantiate_factors`."""
        self._damping = damping
        pair = self._make_pair(self._gradients_by_tower(grads_list))
        tensors = self._inputs_and_gradients(grads_list)
        cls, more = self._eigenbasis_class()
        args = tensors, pair, self.replications(), self.has_bias, self.devices, *more
        s = self.factor_maker.make_or_get_factor(cls, args, name=self.name)
        self._made = *pair, s

    @property
    def eigenbasis_factor(self) -> EigenbasisFactor:
        """The factor of s, which keeps the bases too."""
        return typing.cast(EigenbasisFactor, self.factors[2])

    def describe(self) -> str:
        """Returns a short text such as "ekfac 401x401 (x) 16x16"."""
        return f"ekfac {as_text(self.matrix_shape)}"

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
        if isinstance(vector, tf.IndexedSlices):
            raise self._sparse_error()
        given = self._as_matrix(vector)
        matrix = tf.cast(given, self.eigenbasis_factor.dtype)
        if rotates_first:
            bases = self.eigenbasis_factor.get_bases()
            matrix = tf.matmul(bases.input, matrix, transpose_a=True) @ bases.output
        matrix = scale * matrix
        if rotates_last:
            bases = self.eigenbasis_factor.get_bases()
            matrix = bases.input @ tf.matmul(matrix, bases.output, transpose_b=True)
        return self._as_parameters(self.params, tf.cast(matrix, given.dtype))

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


@typing.final
class FullyConnectedEKFACFB(DenseBlock, EigenbasisBlock):
    """The block of a dense layer that is applied once to an example."""

    settings = ()

    def _eigenbasis_class(self) -> tuple[type[EigenbasisFactor], tuple[Any, ...]]:
        return FullyConnectedEigenbasisFactor, ()


@typing.final
class ConvEKFACFB(ConvolutionBlock, EigenbasisBlock):
    """The block of a convolution that is applied once to an example."""

    def _eigenbasis_class(self) -> tuple[type[EigenbasisFactor], tuple[Any, ...]]:
        return ConvEigenbasisFactor, (self._geometry, self._form.patch_mask)
