"""The blocks of layers that are applied T times to an example.

Uses are assumed to be independent, which gives T·A⊗G with means over examples and uses. In dense
layers they may instead form a chain in which each use depends on the one before it.

References:
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks", §3 and §4.
"""

import typing
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker
from kfac.fisher_blocks.conv import ConvForm, count_locations, make_conv_product
from kfac.fisher_blocks.dense import DenseForm, make_dense_product
from kfac.fisher_blocks.kronecker import (
    KroneckerBlock,
    KroneckerProduct,
    SplitDamping,
    TwoFactorBlock,
)
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.multi import FullyConnectedMultiKF, unsupported_chain_error
from kfac.fisher_factors.slot import Damping
from kfac.linalg.chain import (
    Chain,
    limiting_chain_block,
    symmetric_chain_block,
    symmetric_chain_gain,
)
from kfac.linalg.damped_functions import INVERSE, MatrixFunction
from kfac.linalg.kronecker import layer_params_to_mat2d, mat2d_to_layer_params
from kfac.patches.geometry import ConvGeometry


@typing.final
class FullyConnectedMultiIndepFB(KroneckerBlock):
    """T·E[a aᵀ] ⊗ E[g gᵀ] over examples and T uses, which are assumed to be independent."""

    product_or_identity = KroneckerBlock._kept_or_identity

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: Scalar, form: DenseForm
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The layer's weight, or (weight, bias).
          num_uses: T, an int, or an int Tensor [] if it is not static.
          form: The forms of the factors.
        """
        super().__init__(layer_collection, params)
        self._times = num_uses
        self._form = form

    @property
    def settings(self) -> tuple[Any, ...]:
        """Number of uses if it is static, and forms of the factors."""
        return self._times if isinstance(self._times, int) else None, self._form

    def replications(self) -> Scalar:
        """Returns T; that of the first tower if it is not static."""
        return self._times

    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        return make_dense_product(self, self._form, gradients, damping)


@typing.final
class ConvKFCBasicMultiIndepFB(KroneckerBlock):
    """T·E[p pᵀ] ⊗ E[g gᵀ], with T the number of locations times the number of uses."""

    product_or_identity = KroneckerBlock._kept_or_identity

    def __init__(
        self,
        layer_collection: FactorMaker,
        params: Parameters,
        geometry: ConvGeometry,
        num_uses: int,
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The filter [rows, columns, channels, outputs], or (filter, bias [outputs]).
          geometry: Geometry of the filter.
          num_uses: Number of times that the layer is applied to an example.
        """
        super().__init__(layer_collection, params)
        self._geometry = geometry
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
        return self._times * count_locations(images, self._geometry)

    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        return make_conv_product(self, self._geometry, ConvForm(), gradients, damping)


@typing.final
class FullyConnectedSeriesFB(TwoFactorBlock):
    """The block of a chain of uses, each depending on the one before; offers only the inverse."""

    def __init__(
        self, layer_collection: FactorMaker, params: Parameters, num_uses: int, option: int
    ) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Layer collection, which makes and shares factors.
          params: The layer's weight, or (weight, bias).
          num_uses: T.
          option: 1 assumes that the correlation of neighbours is symmetric, 2 that the chain is
            long.
        """
        super().__init__(layer_collection, params)
        self._times = num_uses
        self._option = option
        self._both: tuple[FullyConnectedMultiKF, FullyConnectedMultiKF] | None = None
        self._split_damping: SplitDamping | None = None

    @property
    def settings(self) -> tuple[Any, ...]:
        """Number of uses, and the option."""
        return self._times, self._option

    def replications(self) -> Scalar:
        """Returns T."""
        return self._times

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G from the layer collection.

        Args:
          grads_list: For each source the gradients of the layer's outputs.
          damping: λ > 0.
        """
        gradients = self._gradients_by_tower(grads_list)
        a = self._make_factor((self.inputs,), self.has_bias, "input")
        self._both = a, self._make_factor(gradients, False, "output")
        config = self.factor_maker.config
        self._split_damping = SplitDamping(self.name, self._both, damping, self._times, config)

    def _make_factor(self, tensors: Sources, has_bias: bool, side: str) -> FullyConnectedMultiKF:
        args = tensors, self._times, has_bias, self.devices
        make = self.factor_maker.make_or_get_factor
        factor = make(FullyConnectedMultiKF, args, name=f"{self.name}/{side}")
        return typing.cast(FullyConnectedMultiKF, factor)

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """(A, G); empty before they are made."""
        return self._both or ()

    @property
    def _damping(self) -> SplitDamping:
        if self._split_damping is None:
            raise self._not_instantiated()
        return self._split_damping

    def _pairs(self) -> Iterator[tuple[FullyConnectedMultiKF, Damping]]:
        if self._both is None:
            raise self._not_instantiated()
        return zip(self._both, (self._damping.of_input, self._damping.of_output), strict=True)

    def identity_eigenvalue(self) -> Scalar:
        """Returns T(1 + √λ')²; see `SplitDamping`."""
        return self._damping.identity_eigenvalue()

    def _check(self, function: MatrixFunction) -> None:
        if function != INVERSE:
            raise unsupported_chain_error(function, f"layer {self.name!r}")

    def register(self, function: MatrixFunction) -> None:
        """Registers the chains of A and G for products with the inverse.

        Raises:
          ValueError: The function is not `INVERSE`.
        """
        self._check(function)
        for factor, damping in self._pairs():
            factor.register(Chain(self._option), damping)

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns the damped inverse times a vector.

        Args:
          function: `INVERSE`.
          vector: Shaped as the parameters.
          transpose: Ignored: the inverse is symmetric.

        Raises:
          ValueError: The function is not `INVERSE`.
        """
        del transpose
        self._check(function)
        matrix = layer_params_to_mat2d(vector)
        wide = tf.cast(tf.transpose(matrix), self.input_factor.inverse_dtype)
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
