"""The damped matrix T·A⊗G, and products of its functions with a matrix V.

Knows factors and damping, but no layers. A matrix V [inputs, outputs] represents the vector v of
its rows, one after another. Then (A⊗G) v is the vector of A V G, and powers and Cholesky factors of
A⊗G are the Kronecker products of those of A and G. Made by the blocks of dense layers and
convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §4.2 and §6.3.
"""

import math
import typing
from collections.abc import Iterator

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.slot import Damping
from kfac.fisher_factors.stored_average import StoredAverage, are_together, split_damping_of
from kfac.linalg.kronecker import balance, kronecker_product
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator
from kfac.linalg.shared_numbers import as_argument
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars


@typing.final
class SplitDamping:
    """π√λ'·I for A and √λ'/π·I for G, computed from the current traces at each read.

    λ' = λ/T^p is the damping of each of the T applications of the layer to an example, with λ > 0
    and p = `CurvatureConfig.damping_power`. Without `CurvatureConfig.balance_damping` π is 1.
    `of_input` is the damping of A, `of_output` that of G.
    """

    def __init__(
        self,
        layer: str,
        factors: tuple[FisherFactor, FisherFactor],
        damping: Scalar,
        times: Scalar,
        config: CurvatureConfig,
    ) -> None:
        self._factors = factors
        self._damping = damping
        self._times = times
        self._config = config
        self._names = f"{layer}/input", f"{layer}/output"
        self.of_input, self.of_output = (Damping(name, self._compute) for name in self._names)

    def _compute(self) -> dict[str, Tensor]:
        return dict(zip(self._names, self._split(), strict=True))

    def _split(self) -> tuple[Tensor, Tensor]:
        """Returns π√λ' and √λ'/π, shape [] each, in the dtypes of A and G."""
        a, g = self._factors
        root = _root(self.of_one_use())
        if not self._config.balance_damping:
            root = as_scalar(root, a.dtype)
            return root, tf.cast(root, g.dtype)
        stored = self._stored_together()
        if stored is not None:
            root = as_argument(root, a.dtype, stored[0].total.device)
            return split_damping_of(*stored, root)
        pi, inverse = balance(a.mean_eigenvalue(), tf.cast(g.mean_eigenvalue(), a.dtype))
        root = as_scalar(root, a.dtype)
        return root * pi, tf.cast(root * inverse, g.dtype)

    def _stored_together(self) -> tuple[StoredAverage, StoredAverage] | None:
        """Returns the averages of A and G if one function can read both; else None."""
        a, g = (factor.stored_average for factor in self._factors)
        if a is None or g is None or not are_together([*a.variables, *g.variables]):
            return None
        return a, g

    def of_one_use(self) -> Scalar:
        """Returns λ', a number if λ and T are; else shape [], in the dtype of A."""
        times, damping = known_or_scalars((self._times, self._damping), self._factors[0].dtype)
        return damping / times**self._config.damping_power

    def identity_eigenvalue(self) -> Scalar:
        """Returns T(1 + √λ')², like `of_one_use`: two identity matrices split damping evenly."""
        times, damping = known_or_scalars((self._times, self.of_one_use()), self._factors[0].dtype)
        return times * (1 + _root(damping)) ** 2


def _root(damping: Scalar) -> Scalar:
    return tf.sqrt(damping) if tf.is_tensor(damping) else math.sqrt(damping)


@typing.final
class KroneckerOperator(typing.NamedTuple):
    """The function V ↦ c·L V Rᵀ, or c·Lᵀ V R if transposed.

    L [inputs, inputs] is `left`, R [outputs, outputs] is `right`, c, a number or a Tensor [], is
    `scale`. `dtypes` are those of L and R.
    """

    left: LinearOperator
    right: LinearOperator
    scale: Scalar
    dtypes: tuple[DType, DType]
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

        X is [r, inputs], D [r, outputs]. The product has the dtype of D.
        """
        first, second = self.dtypes
        left = self.left.right(tf.cast(x, first), not self.transpose)
        scaled = self._scaled(self.right.right(tf.cast(d, second), not self.transpose))
        product = tf.matmul(tf.cast(left, second), scaled, transpose_a=True)
        return tf.cast(product, d.dtype)

    def multiply_slices(self, slices: tf.IndexedSlices) -> tf.IndexedSlices | None:
        """Returns the product with some rows of V, as those rows; None if L is not diagonal."""
        if not isinstance(self.left, DiagonalOperator):
            return None
        values = self._product(slices.values, self.left.take(slices.indices))
        return tf.IndexedSlices(values, slices.indices, slices.dense_shape)

    def _product(self, matrix: Tensor, left: LinearOperator) -> Tensor:
        first, second = self.dtypes
        product = left.left(tf.cast(matrix, first), self.transpose)
        product = self.right.right(tf.cast(product, second), not self.transpose)
        return tf.cast(self._scaled(product), matrix.dtype)

    def _scaled(self, product: Tensor) -> Tensor:
        if isinstance(self.scale, (int, float)) and self.scale == 1:
            return product
        return as_scalar(self.scale, product.dtype) * product


@typing.final
class KroneckerProduct(typing.NamedTuple):
    """F = T·A⊗G of the factors A and G, damped: T·(A + π√λ'·I) ⊗ (G + √λ'/π·I)."""

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
