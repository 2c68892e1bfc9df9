"""Blocks of a factor A of a layer's inputs and a factor G of its output gradients.

A matrix V [inputs, outputs] stands for the vector v of its rows, one after another. Then (A⊗G) v is
the vector of A V G, and powers and Cholesky factors of A⊗G are the Kronecker products of those of A
and G. In the order of Martens & Grosse (2015):

  Statistics   F ≈ T·A⊗G, for a layer that is applied T times to an example    §3
  Damping      T·(A + π√λ'·I) ⊗ (G + √λ'/π·I) with λ' = λ/T                    §6.3
  Inverse      each factor keeps its own                                       §4.2
  Products     F⁻¹ vec(V) = vec((A + π√λ'·I)⁻¹ V (G + √λ'/π·I)⁻¹) / T          §4.2

Each family makes the factors and counts T. Extended by the blocks of dense layers and convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671.
"""

import abc
import math
import typing
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from kfac._types import DType, Parameters, Scalar, Tensor
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import (
    FactorMaker,
    FisherBlock,
    as_tuple,
    layer_params_to_mat2d,
    mat2d_to_layer_params,
)
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.kept import Damping
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.linalg import vectors
from kfac.linalg.damped_functions import MatrixFunction
from kfac.linalg.linear_operator import (
    DenseOperator,
    DiagonalOperator,
    LinearOperator,
    cheaper_row_product,
)
from kfac.linalg.shared import shared, shared_constant
from kfac.linalg.tensor_ops import (
    as_scalar,
    has_first_column,
    known_or_scalars,
    kronecker_product,
    static_size,
)
from kfac.state import is_in_function


class TwoFactorBlock(FisherBlock):
    """A block made of a factor A of the layer's inputs and a factor G of its output gradients."""

    @abc.abstractmethod
    def replications(self) -> Scalar:
        """Returns T, the layer's applications to one example: an int or an int Tensor []."""

    def _make_pair(self, gradients: Sources) -> tuple[FisherFactor, FisherFactor]:
        """Returns A and G, each a new factor or an equal earlier one.

        Gradients of the layer's outputs come by [source][tower].
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what A and G are.")

    @property
    def input_factor(self) -> FisherFactor:
        """A, the factor of the layer's inputs."""
        return self.factors[0]

    @property
    def output_factor(self) -> FisherFactor:
        """G, the factor of the gradients of the layer's outputs."""
        return self.factors[1]

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Numbers of rows of A and of G that the parameters need, from static shapes."""
        weight, *bias = as_tuple(self.params)
        outputs = bias[0].shape.num_elements() if bias else static_size(weight, -1)
        return weight.shape.num_elements() // outputs + len(bias), outputs

    def check_shapes(self) -> None:
        """Compares the sizes of A and G with the parameters."""
        found = (self.input_factor.dimension, self.output_factor.dimension)
        if found != self.matrix_shape:
            raise ValueError(
                f"Cannot precondition layer {self.name!r}: its parameters need Kronecker factors "
                f"of {as_text(self.matrix_shape)}, its registered inputs and outputs give "
                f"{as_text(found)}. Register the tensors that enter and leave this layer, and "
                "pass (weight, bias) if, and only if, the layer has a bias."
            )

    def trace(self, factor_traces: Mapping[str, Tensor]) -> Tensor:
        """Returns T·tr A·tr G, float64 []; see `FisherBlock.trace`."""
        pair = self.input_factor, self.output_factor
        a, g = (tf.cast(factor_traces[factor.name], tf.float64) for factor in pair)
        times = self.replications()
        if isinstance(times, int):
            if times == 1:
                return a * g
            times = shared_constant(times, [], tf.float64)
        return as_scalar(times, tf.float64) * a * g

    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""
        return f"kron {as_text(self.matrix_shape)}"

    _as_matrix = staticmethod(layer_params_to_mat2d)
    """Returns V [rows of A, rows of G] of a vector shaped as the parameters."""

    _as_parameters = staticmethod(mat2d_to_layer_params)
    """Undoes `_as_matrix`, for parameters with the shapes of a template."""

    def _sparse_error(self) -> ValueError:
        return ValueError(
            f"Cannot multiply sparse gradients of layer {self.name!r}: its input factor is not "
            "diagonal. Register it with dense_inputs=False and approx='kron_in_diag', or convert "
            "the gradients with tf.convert_to_tensor."
        )


def as_text(dimensions: tuple[int, int]) -> str:
    """Returns the sizes of A and G as a text such as "401x401 (x) 16x16"."""
    a, g = dimensions
    return f"{a}x{a} (x) {g}x{g}"


@shared
def split_damping(
    a_mean: Scalar, g_mean: Scalar, root: Scalar, *, dtypes: tuple[DType, DType]
) -> tuple[Tensor, Tensor]:
    """Returns π√λ' and √λ'/π, shape [] each, in the dtypes of A and G; Martens & Grosse, §6.3.

    π = √((tr A / dim A) / (tr G / dim G)) balances the error terms of π√λ' on the diagonal of A and
    of √λ'/π on that of G. It is 1 where a trace is zero, as with outputs that no gradient reached.
    The means are tr A / dim A and tr G / dim G; `root` is √λ'.
    """
    a, g, both = (as_scalar(x, dtypes[0]) for x in (a_mean, g_mean, root))
    # A ratio of ratios rather than of products: products of small traces underflow in float32.
    ratio = tf.math.divide_no_nan(a, g)
    ratio = tf.where(tf.equal(ratio, 0), tf.ones_like(ratio), ratio)
    return both * tf.sqrt(ratio), tf.cast(both * tf.math.rsqrt(ratio), dtypes[1])


@typing.final
class KroneckerProduct:
    """F = T·A⊗G of the factors A and G, damped: T·(A + π√λ'·I) ⊗ (G + √λ'/π·I).

    λ' = λ/T^p is the damping of each of the T applications of the layer to an example, with λ > 0
    and p = `CurvatureConfig.damping_power`. Without `CurvatureConfig.balance_damping` π is 1. The
    dampings are computed from the current traces at each read.

    Attributes:
      factors: A and G.
      times: T.
    """

    def __init__(
        self,
        layer: str,
        factors: tuple[FisherFactor, FisherFactor],
        damping: Scalar,
        times: Scalar,
        config: CurvatureConfig,
    ) -> None:
        self.factors = factors
        self.times = times
        self._damping = damping
        self._config = config
        self._names = f"{layer}/input", f"{layer}/output"

    def pairs(self) -> Iterator[tuple[FisherFactor, Damping]]:
        """Returns each factor with its damping."""
        dampings = (Damping(name, self._compute) for name in self._names)
        return zip(self.factors, dampings, strict=True)

    def _compute(self) -> dict[str, Tensor]:
        """Returns both dampings by name, shape [] each, in the dtypes of A and G."""
        a, g = self.factors
        root = _root(self.of_one_use())
        if self._config.balance_damping:
            means = a.mean_eigenvalue, g.mean_eigenvalue
            both = split_damping(*means, root, dtypes=(a.dtype, g.dtype))
        else:
            root = as_scalar(root, a.dtype)
            both = root, tf.cast(root, g.dtype)
        return dict(zip(self._names, both, strict=True))

    def of_one_use(self) -> Scalar:
        """Returns λ', a number if λ and T are; else shape [], in the dtype of A."""
        times, damping = known_or_scalars((self.times, self._damping), self.factors[0].dtype)
        return damping / times**self._config.damping_power

    def identity_eigenvalue(self) -> Scalar:
        """Returns T(1 + √λ')², like `of_one_use`: two identity matrices split damping evenly."""
        times, damping = known_or_scalars((self.times, self.of_one_use()), self.factors[0].dtype)
        return times * (1 + _root(damping)) ** 2

    def to_dense(self) -> Tensor:
        """Returns T·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        a, g = (factor.get_cov_as_linear_operator().to_dense() for factor in self.factors)
        product = kronecker_product(a, tf.cast(g, a.dtype))
        return as_scalar(self.times, a.dtype) * product


def _root(damping: Scalar) -> Scalar:
    return tf.sqrt(damping) if tf.is_tensor(damping) else math.sqrt(damping)


@typing.final
class KroneckerOperator(typing.NamedTuple):
    """The function V ↦ c·L V Rᵀ, or c·Lᵀ V R if transposed.

    L [inputs, inputs] is `left`, R [outputs, outputs] is `right`, c, a number or a Tensor [], is
    `scale`; None means 1. `dtypes` are those of L and R.
    """

    left: LinearOperator
    right: LinearOperator
    scale: Scalar | None
    dtypes: tuple[DType, DType]
    transpose: bool

    def multiply(self, matrix: Tensor) -> Tensor:
        """Returns the product with V [inputs, outputs], in the dtype of V."""
        first, second = self.dtypes
        product = self.left.left(tf.cast(matrix, first), self.transpose)
        product = self.right.right(tf.cast(product, second), not self.transpose)
        if self.scale is not None:
            product = as_scalar(self.scale, second) * product
        return tf.cast(product, matrix.dtype)

    def multiply_row_product(self, x: Tensor, d: Tensor) -> Tensor:
        """Returns the product with V = XᵀD, as (c·D Rᵀ) multiplied from the left by (X Lᵀ)ᵀ.

        X is [r, inputs], D [r, outputs]. The product has the dtype of D.
        """
        first, second = self.dtypes
        left = self.left.right(tf.cast(x, first), not self.transpose)
        right = self.right.right(tf.cast(d, second), not self.transpose)
        if self.scale is not None:
            right = as_scalar(self.scale, second) * right
        return tf.cast(tf.matmul(tf.cast(left, second), right, transpose_a=True), d.dtype)


@shared
def product_or_identity(
    inverses: tuple[Tensor, Tensor],
    parts: tuple[Tensor, ...],
    scale: Scalar | None,
    eigenvalue: Scalar,
    *,
    transpose: bool,
) -> list[Tensor]:
    """Returns c·L V Rᵀ, or e·V as long as L or R has only zeros in its first column.

    Only the one that is wanted is computed. V is a weight, or a weight and a bias, with known
    ranks. c and e are numbers or Tensors []; for c None means 1. The transpose is c·Lᵀ V R.
    """
    left, right = inverses
    operators = DenseOperator(left), DenseOperator(right)
    operator = KroneckerOperator(*operators, scale, (left.dtype, right.dtype), transpose)
    params = parts if len(parts) > 1 else parts[0]

    def product() -> list[Tensor]:
        matrix = operator.multiply(layer_params_to_mat2d(params))
        return tf.nest.flatten(mat2d_to_layer_params(params, matrix))

    has_inverse = tf.logical_and(*map(has_first_column, inverses))
    return tf.cond(has_inverse, product, lambda: vectors.scale(eigenvalue, parts))


class SplitDampedBlock(TwoFactorBlock):
    """A block whose damping is split between A and G."""

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        super().__init__(layer_collection, params)
        self._kronecker: KroneckerProduct | None = None

    def _make_product(self, gradients: Sources, damping: Scalar) -> KroneckerProduct:
        """Returns the damped product of A and G, each a new factor or an equal earlier one.

        Gradients of the layer's outputs come by [source][tower]; the damping is λ > 0.
        """
        pair, config = self._make_pair(gradients), self.factor_maker.config
        return KroneckerProduct(self.name, pair, damping, self.replications, config)

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G from the layer collection; see `FisherBlock.instantiate_factors`."""
        self._kronecker = self._make_product(self._gradients_by_tower(grads_list), damping)
        self._made = self._kronecker.factors

    @property
    def _product(self) -> KroneckerProduct:
        if self._kronecker is None:
            raise self._not_instantiated()
        return self._kronecker

    def identity_eigenvalue(self) -> Scalar:
        """Returns T(1 + √λ')²; see `KroneckerProduct`."""
        return self._product.identity_eigenvalue()


class KroneckerBlock(SplitDampedBlock):
    """F ≈ T·A⊗G, with T the number of times that the layer is applied to one example."""

    def register(self, function: MatrixFunction) -> None:
        """Registers a function of A and of G, each with its damping."""
        for factor, damping in self._product.pairs():
            factor.register(function, damping)

    @property
    def multiplies_slices(self) -> bool:
        """True if A is diagonal."""
        return isinstance(self.input_factor, DiagonalFactor)

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
        dtypes = a.product_dtype, g.product_dtype
        operator = KroneckerOperator(left, right, self._scale(function), dtypes, transpose)
        if isinstance(left, DenseOperator) and isinstance(right, DenseOperator):
            rows = cheaper_row_product(vector)
            if rows is not None:
                return self._as_parameters(self.params, operator.multiply_row_product(*rows))
        if isinstance(vector, tf.IndexedSlices):
            if not isinstance(left, DiagonalOperator):
                raise self._sparse_error()
            of_rows = operator._replace(left=left.take(vector.indices))
            values = of_rows.multiply(vector.values)
            return tf.IndexedSlices(values, vector.indices, vector.dense_shape)
        return self._as_parameters(self.params, operator.multiply(self._as_matrix(vector)))

    def _kept_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """Returns what `product_or_identity` does, in one op if both f are kept as matrices.

        Classes whose products are those of this one use it. It is not for graphs of functions, nor
        for vectors that `multiply_function` does not take as V; for these it returns None.
        """
        factors, parts = self._product.factors, tuple(tf.nest.flatten(vector))
        is_general = (
            is_in_function()
            or not all(isinstance(f, MatrixFactor) and f.keeps(function) for f in factors)
            or any(isinstance(part, tf.IndexedSlices) for part in parts)
            or cheaper_row_product(vector) is not None
        )
        if is_general:
            return None
        matrices = tuple(operator.to_dense() for operator in self._operators(function))
        eigenvalue = self.identity_eigenvalue() ** function.degree
        scale = self._scale(function)
        products = product_or_identity(matrices, parts, scale, eigenvalue, transpose=transpose)
        for product, part in zip(products, parts, strict=True):
            product.set_shape(part.shape)
        return tuple(products) if self.has_bias else products[0]

    def _operators(self, function: MatrixFunction) -> list[LinearOperator]:
        return [f.operator(function, damping) for f, damping in self._product.pairs()]

    def _scale(self, function: MatrixFunction) -> Scalar | None:
        """Returns T^e, a number or a Tensor [] in the dtype of the inverse of G; None for 1."""
        product = self._product
        (times,) = known_or_scalars([product.times], product.factors[1].product_dtype)
        return None if isinstance(times, int) and times == 1 else times**function.degree

    def full_fisher_block(self) -> Tensor:
        """Returns T·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        return self._product.to_dense()
