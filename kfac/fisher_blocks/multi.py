"""The blocks of layers that are applied T times to an example.

Uses are assumed to be independent, which gives T·A⊗G with means over examples and uses. In dense
layers they may instead form a chain in which each use depends on the one before it.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §3 and §4.
"""

import typing
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, layer_params_to_mat2d, mat2d_to_layer_params
from kfac.fisher_blocks.conv import ConvolutionBlock
from kfac.fisher_blocks.dense import DenseBlock, DenseForm
from kfac.fisher_blocks.kronecker import KroneckerBlock, SplitDampedBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.kept import Damping
from kfac.fisher_factors.multi import FullyConnectedMultiKF, unsupported_chain_error
from kfac.linalg.chain import (
    Chain,
    limiting_chain_block,
    symmetric_chain_block,
    symmetric_chain_gain,
)
from kfac.linalg.damped_functions import INVERSE, MatrixFunction
from kfac.patches.extraction import ConvGeometry, num_locations, spatial_sizes


@typing.final
class FullyConnectedMultiIndepFB(DenseBlock, KroneckerBlock):
    """T·E[a aᵀ] ⊗ E[g gᵀ] over examples and T uses, which are assumed to be independent.

    `num_uses` is T, an int, or an int Tensor [] if it is not static.
    """

    product_or_identity = KroneckerBlock._kept_or_identity

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: Scalar, form: DenseForm
    ) -> None:
        super().__init__(layer_collection, params, form)
        self._times = num_uses

    @property
    def settings(self) -> tuple[Any, ...]:
        """Number of uses if it is static, and forms of the factors."""
        return self._times if isinstance(self._times, int) else None, self._form

    def replications(self) -> Scalar:
        """Returns T; that of the first tower if it is not static."""
        return self._times


@typing.final
class ConvKFCBasicMultiIndepFB(ConvolutionBlock, KroneckerBlock):
    """T·E[p pᵀ] ⊗ E[g gᵀ], with T the number of locations times the number of uses."""

    product_or_identity = KroneckerBlock._kept_or_identity

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        num_uses: int,
    ) -> None:
        super().__init__(layer_collection, params, geometry)
        self._times = num_uses

    @property
    def settings(self) -> tuple[Any, ...]:
        """The geometry, and the number of uses."""
        return self._geometry, self._times

    def replications(self) -> Scalar:
        """Returns T; a Tensor if the image size is not static."""
        images = tf.nest.flatten(self.inputs)[0]
        is_stacked = images.shape.rank == self._geometry.rank + 3
        images = images[0] if is_stacked else images
        return self._times * num_locations(spatial_sizes(images, self._geometry), self._geometry)


@typing.final
class FullyConnectedSeriesFB(SplitDampedBlock):
    """The block of a chain of T uses, each depending on the one before; offers only the inverse.

    `option` 1 assumes that the correlation of neighbours is symmetric, 2 that the chain is long.
    """

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: int, option: int
    ) -> None:
        super().__init__(layer_collection, params)
        self._times = num_uses
        self._option = option

    @property
    def settings(self) -> tuple[Any, ...]:
        """Number of uses, and the option."""
        return self._times, self._option

    def replications(self) -> Scalar:
        """Returns T."""
        return self._times

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        make, name = self.factor_maker.make_or_get_factor, self.name
        args: tuple[Any, ...] = (self.inputs,), self._times, self.has_bias, self.devices
        a = make(FullyConnectedMultiKF, args, name=f"{name}/input")
        args = gradients, self._times, False, self.devices
        return a, make(FullyConnectedMultiKF, args, name=f"{name}/output")

    def _pairs(self) -> Iterator[tuple[FullyConnectedMultiKF, Damping]]:
        return typing.cast(Iterator[tuple[FullyConnectedMultiKF, Damping]], self._product.pairs())

    def _check(self, function: MatrixFunction) -> None:
        if function != INVERSE:
            raise unsupported_chain_error(function, f"layer {self.name!r}")

    def register(self, function: MatrixFunction) -> None:
        """Registers the chains of A and G for products with the inverse."""
        self._check(function)
        for factor, damping in self._pairs():
            factor.register(Chain(self._option), damping)

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns the damped inverse, which is symmetric, times a vector."""
        del transpose
        self._check(function)
        matrix = layer_params_to_mat2d(vector)
        wide = tf.cast(tf.transpose(matrix), self.input_factor.product_dtype)
        product = (self._by_symmetric_chain if self._option == 1 else self._by_limiting_chain)(wide)
        return mat2d_to_layer_params(self.params, tf.cast(tf.transpose(product), matrix.dtype))

    def _by_symmetric_chain(self, z: Tensor) -> Tensor:
        """Returns the product by option 1, for Z = Vᵀ.

        Z ← L_Gᵀ Z L_A; Z ∘ γ(ψ_G ψ_Aᵀ); L_G Z L_Aᵀ.
        """
        a, g = (factor.get_symmetric_chain(damping) for factor, damping in self._pairs())
        z = tf.matmul(g.basis, z, transpose_a=True) @ a.basis
        gain = symmetric_chain_gain(g.psi[:, tf.newaxis] * a.psi, self._times)
        return g.basis @ tf.matmul(z * tf.cast(gain, z.dtype), a.basis, transpose_b=True)

    def _by_limiting_chain(self, z: Tensor) -> Tensor:
        """Returns the product by option 2, for Z = Vᵀ.

        Z ← Z − P_G Z P_Aᵀ; K_Gᵀ Z K_A; Z / (1 − μ_G μ_Aᵀ), a zero replaced by 1; K_G Z K_Aᵀ;
        Z − P_Gᵀ Z P_A; Z / T.
        """
        a, g = (factor.get_limiting_chain(damping) for factor, damping in self._pairs())
        z -= g.step @ tf.matmul(z, a.step, transpose_b=True)
        z = tf.matmul(g.basis, z, transpose_a=True) @ a.basis
        rest = 1 - g.mu[:, tf.newaxis] * a.mu
        z /= tf.where(tf.equal(rest, 0), tf.ones_like(rest), rest)
        z = g.basis @ tf.matmul(z, a.basis, transpose_b=True)
        z -= tf.matmul(g.step, z, transpose_a=True) @ a.step
        return z / self._times

    def full_fisher_block(self) -> Tensor:
        """Returns the undamped block whose inverse is known, as a square matrix."""
        a, g = (factor.value for factor, _ in self._pairs())
        block = symmetric_chain_block if self._option == 1 else limiting_chain_block
        return block(a, tf.cast(g, a.dtype), self._times)
