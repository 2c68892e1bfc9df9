"""Blocks with one factor that is the whole block, as a matrix or as a diagonal.

A vector is the concatenation of its flattened parts. Extended by the diagonal blocks of dense
layers and convolutions, the blocks of scale and shift, and the generic blocks.
"""

import abc
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.kept import Damping
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.linear_operator import damped_diagonal_power
from kfac.linalg.shared import shared
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars, with_shape
from kfac.linalg.vectors import joined, parted, scale
from kfac.state import read

v1 = tf.compat.v1


class SingleFactorBlock(FisherBlock):
    """F = M, damped by λ."""

    @property
    @abc.abstractmethod
    def is_diagonal(self) -> bool:
        """True if M is diagonal."""

    @abc.abstractmethod
    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        """Makes M."""

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets M from the layer collection; see `FisherBlock.instantiate_factors`."""
        self._damping = damping
        self._made = (self._make_factor(grads_list),)

    @property
    def factor(self) -> FisherFactor:
        """M."""
        return self.factors[0]

    @property
    def size(self) -> int:
        """Number of entries of all parameters, from static shapes."""
        return sum(param.shape.num_elements() for param in as_tuple(self.params))

    def check_shapes(self) -> None:
        """Compares the size of M with the parameters."""
        if self.factor.dimension != self.size:
            raise ValueError(
                f"Cannot precondition layer {self.name!r}: its parameters have {self.size} entries "
                f"together, its registered inputs and outputs call for {self.factor.dimension}. "
                "Register the tensors that enter and leave this layer, and its bias if, and only "
                "if, it has one."
            )

    def describe(self) -> str:
        """Returns a short text such as "diagonal 42" or "full 42x42"."""
        return f"diagonal {self.size}" if self.is_diagonal else f"full {self.size}x{self.size}"

    def _own_damping(self) -> Damping:
        factor = self.factor
        return Damping(self.name, lambda: {self.name: as_scalar(self._damping, factor.dtype)})

    def register(self, function: MatrixFunction) -> None:
        """Registers a function of M with damping λ."""
        self.factor.register(function, self._own_damping())

    def identity_eigenvalue(self) -> Scalar:
        """Returns 1 + λ."""
        (damping,) = known_or_scalars([self._damping], self.factor.dtype)
        return 1 + damping

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns f(M + λI) v, or f(M + λI)ᵀ v, in the shapes of the parameters."""
        operator = self.factor.operator(function, self._own_damping())
        parts = self._dense_parts(vector)
        whole = joined(parts, self.factor.product_dtype).whole
        return self._as_parameters(parted(operator.times(whole, transpose), parts))

    def _as_parameters(self, parts: Sequence[Tensor]) -> Parameters:
        return tuple(parts) if self.has_bias else parts[0]

    def _dense_parts(self, vector: Parameters) -> list[Tensor]:
        return [
            with_shape(tf.convert_to_tensor(part), param.shape)
            for part, param in zip(as_tuple(vector), as_tuple(self.params), strict=True)
        ]

    def full_fisher_block(self) -> Tensor:
        """Returns M, undamped, [size, size]."""
        return self.factor.get_cov_as_linear_operator().to_dense()


class DiagonalBlock(SingleFactorBlock):
    """A block whose factor is a `DiagonalFactor`; its products are one operation each."""

    is_diagonal = True

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns f(M + λI) v, which is zero before the first statistic."""
        del transpose
        return self._multiply(function, vector, None)

    def product_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """Returns the product, or that with damped identity matrices before any statistic."""
        del transpose
        return self._multiply(function, vector, self.identity_eigenvalue() ** function.degree)

    def _multiply(
        self, function: MatrixFunction, vector: Parameters, eigenvalue: Scalar | None
    ) -> Parameters:
        factor = self.factor
        total, weight = (tf.cast(read(v), factor.dtype) for v in factor.cov_variables[:2])
        (damping,) = known_or_scalars([self._damping], factor.dtype)
        parts = tuple(self._dense_parts(vector))
        products = diagonal_product(
            total, weight, parts, damping=damping, eigenvalue=eigenvalue,
            degree=function.degree, dtype=factor.product_dtype,
        )  # fmt: skip
        for product, part in zip(products, parts, strict=True):
            product.set_shape(part.shape)
        return self._as_parameters(products)


@shared
def diagonal_product(
    total: Tensor,
    weight: Tensor,
    parts: tuple[Tensor, ...],
    *,
    damping: Scalar,
    eigenvalue: Scalar | None,
    degree: float,
    dtype: DType,
) -> list[Tensor]:
    """Returns (S/w + d)^p ∘ v, or e·v as long as w is zero.

    S [n] is `total`, p the `degree`, and the parts of v have n entries together. d and e are
    numbers or Tensors []; for e None means 0. `dtype` is that of the products before they get that
    of v.
    """
    value = total / weight
    power = damped_diagonal_power(value, as_scalar(damping, value.dtype), degree, dtype)
    ends = [power] if len(parts) == 1 else tf.split(power, tf.stack([*map(tf.size, parts)]))
    products = [
        tf.cast(tf.reshape(diagonal, tf.shape(part)) * tf.cast(part, dtype), part.dtype)
        for diagonal, part in zip(ends, parts, strict=True)
    ]
    if eigenvalue is None:  # The power is zero as long as w is.
        return products
    pairs = zip(products, scale(eigenvalue, parts), strict=True)
    return [v1.where(weight > 0, *pair) for pair in pairs]
