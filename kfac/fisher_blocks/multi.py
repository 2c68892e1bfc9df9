"""The blocks of layers that are applied several times to an example.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §3 and §4.
"""

import typing
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.conv import ConvFactorsBlock
from kfac.fisher_blocks.dense import DenseFactorsBlock, DenseForm
from kfac.fisher_blocks.kronecker import KroneckerBlock, TwoFactorBlock
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.multi import FullyConnectedMultiKF
from kfac.linalg.chain import limiting_chain_block, symmetric_chain_block, symmetric_chain_gain
from kfac.linalg.kronecker import layer_params_to_mat2d, mat2d_to_layer_params
from kfac.patches.geometry import ConvGeometry


@typing.final
class FullyConnectedMultiIndepFB(DenseFactorsBlock, KroneckerBlock):
    """T·E[a aᵀ] ⊗ E[g gᵀ] over examples and T uses, which are taken to be independent."""

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: Scalar, form: DenseForm
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
          num_uses: T, an int, or an int Tensor [] if it is not static.
          form: Which forms the factors have.
        """
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
class ConvKFCBasicMultiIndepFB(ConvFactorsBlock, KroneckerBlock):
    """T·E[p pᵀ] ⊗ E[g gᵀ], with T the number of locations times the number of uses."""

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        num_uses: int,
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The filter [rows, columns, channels, outputs], or (filter, bias [outputs]).
          geometry: How the filter slides.
          num_uses: How often the layer is applied to an example.
        """
        super().__init__(layer_collection, params, geometry)
        self._times = num_uses

    @property
    def settings(self) -> tuple[Any, ...]:
        """How the filter slides, and the number of uses."""
        return self._geometry, self._times

    def replications(self) -> Scalar:
        """Returns T; a Tensor if the image size is not static."""
        images = tf.nest.flatten(self.inputs)[0]
        is_stacked = images.shape.rank == self._geometry.rank + 3
        images = images[0] if is_stacked else images
        return self._times * self._locations(images)


@typing.final
class FullyConnectedSeriesFB(TwoFactorBlock):
    """Uses form a chain in which each depends on the one before it; only the inverse is known."""

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: int, option: int
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
          num_uses: T.
          option: 1 takes the correlation of neighbours to be symmetric, 2 the chain to be long.
        """
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

    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        args = (inputs, self._times, self.has_bias, self.devices)
        make = self._factor_maker.make_or_get_factor
        return make(FullyConnectedMultiKF, args, name=f"{self.name}/input")

    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        args = (gradients, self._times, False, self.devices)
        make = self._factor_maker.make_or_get_factor
        return make(FullyConnectedMultiKF, args, name=f"{self.name}/output")

    def _unsupported(self, what: str) -> ValueError:
        return ValueError(
            f"Cannot compute the {what} of layer {self.name!r}: with approx='kron_series_1' or "
            "'kron_series_2' only products with the inverse are known. Register the layer with "
            "approx='kron_indep'."
        )

    def register_matpower(self, exponent: float) -> None:
        """Asks for `multiply_inverse`.

        Raises:
          ValueError: The exponent is not −1.
        """
        if exponent != -1:
            raise self._unsupported(f"power {exponent:g}")
        for factor, damping in zip(self._chain_factors(), self._dampings(), strict=True):
            factor.register_chain(self._option, damping)

    def _chain_factors(self) -> tuple[FullyConnectedMultiKF, ...]:
        return tuple(typing.cast(FullyConnectedMultiKF, factor) for factor in self.factors)

    def multiply_matpower(self, vector: Parameters, exponent: float) -> Parameters:
        """Returns the damped inverse times a vector.

        Raises:
          ValueError: The exponent is not −1.
        """
        if exponent != -1:
            raise self._unsupported(f"power {exponent:g}")
        matrix = layer_params_to_mat2d(vector)
        wide = tf.cast(tf.transpose(matrix), self.input_factor.inverse_dtype)
        product = (self._by_symmetric_chain if self._option == 1 else self._by_limiting_chain)(wide)
        return mat2d_to_layer_params(self.params, tf.cast(tf.transpose(product), matrix.dtype))

    def _by_symmetric_chain(self, z: Tensor) -> Tensor:
        """Option 1: Z ← L_Gᵀ Z L_A, Z ∘ γ(ψ_G ψ_Aᵀ), L_G Z L_Aᵀ, for Z = Vᵀ."""
        a, g = (
            factor.get_symmetric_chain(damping)
            for factor, damping in zip(self._chain_factors(), self._dampings(), strict=True)
        )
        z = tf.matmul(g.basis, z, transpose_a=True) @ a.basis
        gain = symmetric_chain_gain(g.psi[:, tf.newaxis] * a.psi, self._times)
        return g.basis @ tf.matmul(z * tf.cast(gain, z.dtype), a.basis, transpose_b=True)

    def _by_limiting_chain(self, z: Tensor) -> Tensor:
        """Option 2, for Z = Vᵀ.

        Z ← Z − P_G Z P_Aᵀ; K_Gᵀ Z K_A; Z / (1 − μ_G μ_Aᵀ), a zero replaced by 1; K_G Z K_Aᵀ;
        Z − P_Gᵀ Z P_A; Z / T.
        """
        a, g = (
            factor.get_limiting_chain(damping)
            for factor, damping in zip(self._chain_factors(), self._dampings(), strict=True)
        )
        z -= g.step @ tf.matmul(z, a.step, transpose_b=True)
        z = tf.matmul(g.basis, z, transpose_a=True) @ a.basis
        rest = 1 - g.mu[:, tf.newaxis] * a.mu
        z /= tf.where(tf.equal(rest, 0), tf.ones_like(rest), rest)
        z = g.basis @ tf.matmul(z, a.basis, transpose_b=True)
        z -= tf.matmul(g.step, z, transpose_a=True) @ a.step
        return z / self._times

    def register_cholesky(self) -> None:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def register_cholesky_inverse(self) -> None:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def multiply_cholesky(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def multiply_cholesky_inverse(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Raises ValueError: not known."""
        raise self._unsupported("Cholesky factor")

    def full_fisher_block(self) -> Tensor:
        """Returns the block whose inverse is known, undamped, [inputs · outputs, the same]."""
        a, g = (factor.value for factor in self._chain_factors())
        block = symmetric_chain_block if self._option == 1 else limiting_chain_block
        return block(a, tf.cast(g, a.dtype), self._times)
