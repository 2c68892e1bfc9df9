"""Blocks with a factor A of a layer's inputs and a factor G of its output gradients.

Owns the change between parameters and matrices V [inputs, outputs], and the check of their sizes.
`KroneckerBlock` multiplies them by functions of a `kronecker_product.KroneckerProduct`. Each family
makes that product from its factors and their damping, and counts how often the layer is applied to
one example. Extended by the blocks of dense layers and convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3 and §4.2.
"""

import abc
from collections.abc import Mapping, Sequence

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, FisherBlock, as_tuple
from kfac.fisher_blocks.kronecker_product import KroneckerOperator, KroneckerProduct
from kfac.fisher_blocks.shared_products import kronecker_or_identity
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg import low_rank, tensor_ops
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.kronecker import layer_params_to_mat2d, mat2d_to_layer_params
from kfac.linalg.linear_operator import LinearOperator
from kfac.linalg.shared_constants import shared_constant
from kfac.linalg.tensor_ops import as_scalar, known_or_scalars
from kfac.overrides import inherits
from kfac.state import is_in_function


class TwoFactorBlock(FisherBlock):
    """A block made of a factor A of the layer's inputs and a factor G of its output gradients."""

    @abc.abstractmethod
    def replications(self) -> Scalar:
        """Returns T, the layer's applications to one example: an int or an int Tensor []."""

    @property
    def input_factor(self) -> FisherFactor:
        """A, the factor of the layer's inputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self.factors[0]

    @property
    def output_factor(self) -> FisherFactor:
        """G, the factor of the gradients of the layer's outputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self.factors[1]

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Numbers of rows of A and of G that the parameters need, from static shapes."""
        weight, *bias = as_tuple(self.params)
        outputs = bias[0].shape.num_elements() if bias else tensor_ops.static_size(weight, -1)
        return weight.shape.num_elements() // outputs + len(bias), outputs

    def check_shapes(self) -> None:
        """Compares the sizes of A and G with the parameters.

        Raises:
          ValueError: The sizes do not fit, or shapes are not static.
        """
        found = (self.input_factor.dimension, self.output_factor.dimension)
        if found != self.matrix_shape:
            raise ValueError(
                f"Cannot precondition layer {self.name!r}: its parameters need Kronecker factors "
                f"of {self._sizes()}, its registered inputs and outputs give "
                f"{_as_text(found)}. Register the tensors that enter and leave this layer, and "
                "pass (weight, bias) if, and only if, the layer has a bias."
            )

    def trace(self, factor_traces: Mapping[str, Tensor]) -> Tensor:
        """Returns T·tr A·tr G, float64 [].

        Args:
          factor_traces: The traces of A and G, shape [] each, by their names.
        """
        pair = self.input_factor, self.output_factor
        a, g = (tf.cast(factor_traces[factor.name], tf.float64) for factor in pair)
        times = self.replications()
        if isinstance(times, int):
            times = shared_constant(times, [], tf.float64)
        return as_scalar(times, tf.float64) * a * g

    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""
        return f"kron {self._sizes()}"

    def _sizes(self) -> str:
        return _as_text(self.matrix_shape)

    def _as_matrix(self, vector: Parameters) -> Tensor:
        """Returns V [rows of A, rows of G] of a vector shaped as the parameters."""
        if isinstance(vector, tf.IndexedSlices):
            raise ValueError(
                f"Cannot multiply sparse gradients of layer {self.name!r}: its input factor is not "
                "diagonal. Register it with dense_inputs=False and approx='kron_in_diag', or "
                "convert the gradients with tf.convert_to_tensor."
            )
        return layer_params_to_mat2d(vector)

    def _as_parameters(self, matrix: Tensor) -> Parameters:
        """Undoes `_as_matrix`."""
        return mat2d_to_layer_params(self.params, matrix)


class KroneckerBlock(TwoFactorBlock):
    """F ≈ T·A⊗G, with T the number of times that the layer is applied to one example."""

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        super().__init__(layer_collection, params)
        self._kronecker: KroneckerProduct | None = None

    @abc.abstractmethod
    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        """Returns the damped product of A and G, each a new factor or an equal earlier one.

        Gradients of the layer's outputs come by [source][tower]; the damping is λ > 0.
        """

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G from the layer collection.

        Args:
          grads_list: For each source the gradients of the layer's outputs.
          damping: λ > 0.
        """
        self._kronecker = self._make_product(self._gradients_by_tower(grads_list), damping)

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """(A, G); empty before they are made."""
        return () if self._kronecker is None else self._kronecker.factors

    @property
    def _product(self) -> KroneckerProduct:
        if self._kronecker is None:
            raise self._not_instantiated()
        return self._kronecker

    def register(self, function: MatrixFunction) -> None:
        """Registers a function of A and of G, each with its damping."""
        for factor, damping in self._product.pairs():
            factor.register(function, damping)

    @property
    def multiplies_slices(self) -> bool:
        """True if A is diagonal."""
        return isinstance(self.input_factor, DiagonalFactor)

    def identity_eigenvalue(self) -> Scalar:
        """Returns T(1 + √λ')²; see `SplitDamping`."""
        return self._product.damping.identity_eigenvalue()

    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns T^e f(A + π√λ'·I) V f(G + √λ'/π·I)ᵀ, or with the transposes of both f.

        Args:
          function: f, and its degree e.
          vector: V, shaped as the parameters. IndexedSlices of rows of V are accepted where A is
            diagonal.
          transpose: True to multiply by the transpose.

        Returns:
          The product, in the shapes and dtypes of the vector. Of IndexedSlices it is IndexedSlices
          with the same indices.
        """
        a, g = self._product.factors
        left, right = self._operators(function)
        dtypes = a.inverse_dtype, g.inverse_dtype
        operator = KroneckerOperator(left, right, self._scale(function), dtypes, transpose)
        return self._apply(operator, vector)

    def product_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """Returns the product in one op if both f are kept as matrices, outside of functions.

        It is that with identity matrices until both are known. Returns None for vectors that
        `multiply_function` does not take as V.
        """
        is_general = is_in_function() or not self._keeps(function)
        parts = as_tuple(vector)
        if is_general or any(isinstance(part, tf.IndexedSlices) for part in parts):
            return None
        if low_rank.cheaper_row_product(vector) is not None:
            return None
        left, right = (operator.to_dense() for operator in self._operators(function))
        eigenvalue = self.identity_eigenvalue() ** function.degree
        scale = self._scale(function)
        products = kronecker_or_identity((left, right), parts, scale, eigenvalue, transpose)
        return tuple(products) if self.has_bias else products[0]

    def _keeps(self, function: MatrixFunction) -> bool:
        """Returns True if both factors keep f as a matrix, and no class changes the product."""
        is_plain = inherits(
            self, KroneckerBlock,
            "multiply_function", "has_inverse", "_apply", "_as_matrix", "_as_parameters",
        )  # fmt: skip
        return is_plain and all(
            isinstance(factor, MatrixFactor)
            and inherits(factor, MatrixFactor, "operator", "has_inverse")
            and function in (slot.function for slot in factor.inverses)
            for factor in self._product.factors
        )

    def _operators(self, function: MatrixFunction) -> list[LinearOperator]:
        return [f.operator(function, damping) for f, damping in self._product.pairs()]

    def _scale(self, function: MatrixFunction) -> Scalar:
        """Returns T^e, a number or a Tensor [] in the dtype of the inverse of G."""
        product = self._product
        (times,) = known_or_scalars([product.times], product.factors[1].inverse_dtype)
        return times**function.degree

    def full_fisher_block(self) -> Tensor:
        """Returns T·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        return self._product.to_dense()

    def _apply(self, operator: KroneckerOperator, vector: Parameters) -> Parameters:
        """Returns the product with a vector, computed in the cheapest way that its form allows."""
        if operator.is_dense:
            rows = low_rank.cheaper_row_product(vector)
            if rows is not None:
                return self._as_parameters(operator.multiply_row_product(*rows))
        if isinstance(vector, tf.IndexedSlices):
            slices = operator.multiply_slices(vector)
            if slices is not None:
                return slices
        return self._as_parameters(operator.multiply(self._as_matrix(vector)))


def _as_text(dimensions: tuple[int, int]) -> str:
    a, g = dimensions
    return f"{a}x{a} (x) {g}x{g}"
