"""The damped matrix T·A⊗G: its powers and Cholesky factors, and their products with a matrix V.

Knows factors and damping, and nothing of layers: V [inputs, outputs] stands for a vector, its rows
one after another. Then (A⊗G) v belongs to A V G, and powers and Cholesky factors of A⊗G are the
Kronecker products of those of A and G. Made by the blocks of dense layers and convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §4.2 and §6.3.
"""

import typing
from collections.abc import Callable, Iterator

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.fisher_blocks.split_damping import SplitDamping
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import Damping
from kfac.linalg.kronecker import kronecker_product
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.tensor_ops import as_scalar


@typing.final
class KroneckerOperator(typing.NamedTuple):
    """The function V ↦ c·L V Rᵀ, or c·Lᵀ V R if transposed.

    Attributes:
      left: L [inputs, inputs].
      right: R [outputs, outputs].
      scale: c, shape [].
      dtype: Dtype of L.
      transpose: Whether it is transposed.
    """

    left: LinearOperator
    right: LinearOperator
    scale: Tensor
    dtype: DType
    transpose: bool

    @property
    def is_dense(self) -> bool:
        """True if L and R are matrices with all their entries."""
        return isinstance(self.left, DenseOperator) and isinstance(self.right, DenseOperator)

    def multiply(self, matrix: Tensor) -> Tensor:
        """Returns the product with V [inputs, outputs], in the dtype of V."""
        return self._product(matrix, self.left)

    def multiply_row_product(self, x: Tensor, d: Tensor) -> Tensor:
        """Returns the product with V = XᵀD, as (c·D Rᵀ) multiplied from the left by (X Lᵀ)ᵀ.

        Args:
          x: X [r, inputs].
          d: D [r, outputs], whose dtype the product has.
        """
        left = self.left.right(tf.cast(x, self.dtype), not self.transpose)
        right = self.right.right(tf.cast(d, self.scale.dtype), not self.transpose)
        scaled = self.scale * right
        product = tf.matmul(tf.cast(left, self.scale.dtype), scaled, transpose_a=True)
        return tf.cast(product, d.dtype)

    def multiply_slices(self, slices: tf.IndexedSlices) -> tf.IndexedSlices | None:
        """Returns the product with some rows of V, as rows with the same indices.

        Returns:
          None if L is not diagonal.
        """
        if not isinstance(self.left, DiagonalOperator):
            return None
        values = self._product(slices.values, self.left.take(slices.indices))
        return tf.IndexedSlices(values, slices.indices, slices.dense_shape)

    def _product(self, matrix: Tensor, left: LinearOperator) -> Tensor:
        product = left.left(tf.cast(matrix, self.dtype), self.transpose)
        product = self.right.right(tf.cast(product, self.scale.dtype), not self.transpose)
        return tf.cast(self.scale * product, matrix.dtype)


@typing.final
class KroneckerProduct:
    """F = T·A⊗G, and its damped functions T·(A + π√λ'·I) ⊗ (G + √λ'/π·I).

    Attributes:
      factors: A and G.
      damping: π√λ' and √λ'/π.
    """

    def __init__(
        self, factors: tuple[FisherFactor, FisherFactor], damping: SplitDamping, times: Scalar
    ) -> None:
        """Registers nothing yet.

        Args:
          factors: A and G.
          damping: The damping of the two.
          times: T.
        """
        self.factors = factors
        self.damping = damping
        self._times = times

    def _pairs(self) -> Iterator[tuple[FisherFactor, Damping]]:
        dampings = self.damping.of_input, self.damping.of_output
        return zip(self.factors, dampings, strict=True)

    def register_matpower(self, exponent: float) -> None:
        """Registers `matpower` with this exponent."""
        for factor, damping in self._pairs():
            factor.register_matpower(exponent, damping)

    def register_cholesky(self) -> None:
        """Registers `cholesky`."""
        for factor, damping in self._pairs():
            factor.register_cholesky(damping)

    def register_cholesky_inverse(self) -> None:
        """Registers `cholesky_inverse`."""
        for factor, damping in self._pairs():
            factor.register_cholesky_inverse(damping)

    def matpower(self, exponent: float) -> KroneckerOperator:
        """Returns V ↦ T^e (A + π√λ'·I)^e V (G + √λ'/π·I)^e."""
        return self._operator(lambda f, d: f.get_matpower(exponent, d), exponent)

    def cholesky(self, transpose: bool = False) -> KroneckerOperator:
        """Returns V ↦ T^½ L_A V L_Gᵀ, or V ↦ T^½ L_Aᵀ V L_G if transposed."""
        return self._operator(lambda f, d: f.get_cholesky(d), 0.5, transpose)

    def cholesky_inverse(self, transpose: bool = False) -> KroneckerOperator:
        """Returns V ↦ T^(−½) L_A⁻¹ V L_G⁻ᵀ, or V ↦ T^(−½) L_A⁻ᵀ V L_G⁻¹ if transposed."""
        return self._operator(lambda f, d: f.get_cholesky_inverse(d), -0.5, transpose)

    def _operator(
        self,
        get: Callable[[FisherFactor, Damping], LinearOperator],
        exponent: float,
        transpose: bool = False,
    ) -> KroneckerOperator:
        left, right = (get(factor, damping) for factor, damping in self._pairs())
        a, g = self.factors
        scale = as_scalar(self._times, g.inverse_dtype) ** exponent
        return KroneckerOperator(left, right, scale, a.inverse_dtype, transpose)

    def to_dense(self) -> Tensor:
        """Returns T·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        a, g = (factor.get_cov_as_linear_operator().to_dense() for factor in self.factors)
        product = kronecker_product(a, tf.cast(g, a.dtype))
        return as_scalar(self._times, a.dtype) * product
