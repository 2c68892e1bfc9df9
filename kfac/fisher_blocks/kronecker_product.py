"""The damped matrix T·A⊗G, and products of its functions with a matrix V.

Knows factors and damping, but no layers. A matrix V [inputs, outputs] represents the vector v of
its rows, one after another. Then (A⊗G) v is the vector of A V G, and powers and Cholesky factors of
A⊗G are the Kronecker products of those of A and G. Made by the blocks of dense layers and
convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §4.2 and §6.3.
"""

import typing
from collections.abc import Iterator

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
      transpose: True for the transposed function.
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
          d: D [r, outputs]. The product has its dtype.
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
class KroneckerProduct(typing.NamedTuple):
    """F = T·A⊗G with its damping: T·(A + π√λ'·I) ⊗ (G + √λ'/π·I).

    Attributes:
      factors: A and G.
      damping: π√λ' and √λ'/π.
      times: T.
    """

    factors: tuple[FisherFactor, FisherFactor]
    damping: SplitDamping
    times: Scalar

    def pairs(self) -> Iterator[tuple[FisherFactor, Damping]]:
        """Returns each factor with its damping."""
        return zip(self.factors, (self.damping.of_input, self.damping.of_output), strict=True)

    def to_dense(self) -> Tensor:
        """Returns T·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        a, g = (factor.get_cov_as_linear_operator().to_dense() for factor in self.factors)
        product = kronecker_product(a, tf.cast(g, a.dtype))
        return as_scalar(self.times, a.dtype) * product
