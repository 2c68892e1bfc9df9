"""Blocks with one factor that is the whole block, as a matrix or as a diagonal.

A vector is the concatenation of its flattened parts. Extended by the diagonal blocks of dense
layers and convolutions, the blocks of scale and shift, and the generic blocks.
"""

import abc
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, FisherBlock, as_tuple
from kfac.fisher_blocks.shared_products import diagonal_product
from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.matrix import DiagonalFactor
from kfac.fisher_factors.slot import Damping
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars, with_shape
from kfac.linalg.vectors import joined, parted
from kfac.overrides import inherits
from kfac.state import read


class SingleFactorBlock(FisherBlock):
    """F = M, damped by λ."""

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        super().__init__(layer_collection, params)
        self._factor: FisherFactor | None = None
        self._damping: Scalar = None

    @property
    @abc.abstractmethod
    def is_diagonal(self) -> bool:
        """True if M is diagonal."""

    @abc.abstractmethod
    def _make_factor(self, grads_list: Sequence[Sequence[Tensor]]) -> FisherFactor:
        """Makes M."""

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets M from the layer collection.

        Args:
          grads_list: For each source the gradients of `tensors_to_compute_grads()`.
          damping: λ > 0.
        """
        self._damping = damping
        self._factor = self._make_factor(grads_list)

    @property
    def factor(self) -> FisherFactor:
        """M.

        Raises:
          ValueError: M has not been made yet.
        """
        return self.factors[0]

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """(M,); empty before it is made."""
        return () if self._factor is None else (self._factor,)

    @property
    def size(self) -> int:
        """Number of entries of all parameters, from static shapes."""
        return sum(param.shape.num_elements() for param in as_tuple(self.params))

    def check_shapes(self) -> None:
        """Compares the size of M with the parameters.

        Raises:
          ValueError: The size does not fit, or shapes are not static.
        """
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
        """Returns f(M + λI) v, or f(M + λI)ᵀ v, in the shapes of the parameters.

        Args:
          function: f.
          vector: v, shaped as the parameters.
          transpose: True to multiply by the transpose.
        """
        product = self._diagonal_product(function, vector)
        if product is not None:
            return product
        operator = self.factor.operator(function, self._own_damping())
        parts = self._dense_parts(vector)
        whole = joined(parts, self.factor.inverse_dtype).whole
        return self._as_parameters(parted(operator.times(whole, transpose), parts))

    def product_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """Returns the product in one op if M is diagonal; its transpose is the same."""
        del transpose
        if not inherits(self, SingleFactorBlock, "multiply_function", "has_inverse"):
            return None
        return self._diagonal_product(
            function, vector, self.identity_eigenvalue() ** function.degree
        )

    def _diagonal_product(
        self, function: MatrixFunction, vector: Parameters, eigenvalue: Scalar = None
    ) -> Parameters | None:
        """Returns the product, or e·v before the first statistic; None if M is not diagonal."""
        factor = self.factor
        names = "operator", "diagonal_power", "has_inverse", "value"
        if not isinstance(factor, DiagonalFactor) or not inherits(factor, DiagonalFactor, *names):
            return None
        (damping,) = known_or_scalars([self._damping], factor.dtype)
        average = read(factor.cov_variables[0]), factor.read_weight()
        parts = self._dense_parts(vector)
        settings = damping, eigenvalue, function.degree, factor.inverse_dtype
        return self._as_parameters(diagonal_product(average, parts, *settings))

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
