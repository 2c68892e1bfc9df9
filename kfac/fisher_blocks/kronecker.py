"""Blocks of the form c·A⊗G: damping, powers, Cholesky factors and their products.

A is the second moment of what enters a layer, G that of the gradients of what leaves it. A family
says which factors these are and how often the layer is applied to one example; what a block makes
of them is said here, for the Kronecker product. Extended, together with a family, by the blocks of
dense layers and convolutions.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3, §4.2 and §6.3.
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import abc
from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.slot import Damping
from kfac.linalg import low_rank, tensor_ops
from kfac.linalg.kronecker import (
    kronecker_damping,
    kronecker_product,
    layer_params_to_mat2d,
    mat2d_to_layer_params,
)
from kfac.linalg.linear_operator import DenseOperator, DiagonalOperator, LinearOperator


class TwoFactorBlock(FisherBlock):
    """A block that is made of a factor A of the layer's inputs and a factor G of its gradients.

    The damping of each of the T applications of the layer to an example is λ' = λ/T^p, with
    p = `CurvatureConfig.damping_power`; A gets π√λ' of it and G gets √λ'/π.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
        """
        super().__init__(layer_collection, params)
        self._both: tuple[FisherFactor, FisherFactor] | None = None

    @abc.abstractmethod
    def replications(self) -> Scalar:
        """Returns T, how often the layer is applied to one example: an int or an int Tensor []."""

    @abc.abstractmethod
    def _make_input_factor(self, inputs: Sources) -> FisherFactor:
        """Makes or finds A."""

    @abc.abstractmethod
    def _make_output_factor(self, gradients: Sources) -> FisherFactor:
        """Makes or finds G."""

    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets A and G from the layer collection.

        Args:
          grads_list: For each source the gradients of the layer's outputs.
          damping: λ > 0.
        """
        self._damping = damping
        a = self._make_input_factor((self.inputs,))
        self._both = a, self._make_output_factor(self._gradients_by_tower(grads_list))

    @property
    def kronecker_factors(self) -> tuple[FisherFactor, FisherFactor]:
        """(A, G).

        Raises:
          ValueError: Factors have not been made yet.
        """
        if self._both is None:
            raise self._not_instantiated()
        return self._both

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """(A, G), and further factors if a block has any.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self.kronecker_factors

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """(A, G), or nothing before they are made."""
        return self._both or ()

    @property
    def input_factor(self) -> FisherFactor:
        """A, the factor of the layer's inputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self.kronecker_factors[0]

    @property
    def output_factor(self) -> FisherFactor:
        """G, the factor of the gradients of the layer's outputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self.kronecker_factors[1]

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows of A and of G that the parameters call for; from static shapes."""
        weight, *bias = as_tuple(self.params)
        outputs = bias[0].shape.num_elements() if bias else tensor_ops.static_size(weight, -1)
        return weight.shape.num_elements() // outputs + len(bias), outputs

    def check_shapes(self) -> None:
        """Compares the sizes of A and G with the parameters.

        Raises:
          ValueError: They do not fit, or shapes are not static.
        """
        found = (self.input_factor.dimension, self.output_factor.dimension)
        if found != self.matrix_shape:
            raise ValueError(
                f"Cannot precondition layer {self.name!r}: its parameters need Kronecker factors "
                f"of {self._sizes()}, its registered inputs and outputs give "
                f"{_as_text(found)}. Register the tensors that enter and leave this layer, and "
                "pass (weight, bias) if, and only if, the layer has a bias."
            )

    def _dampings(self) -> tuple[Damping, Damping]:
        """The damping of A and of G."""
        names = f"{self.name}/input", f"{self.name}/output"

        def compute() -> dict[str, Tensor]:
            return dict(zip(names, self._split_damping(), strict=True))

        for_a, for_g = (Damping(name, compute) for name in names)
        return for_a, for_g

    def _split_damping(self) -> tuple[Tensor, Tensor]:
        """Returns π√λ' and √λ'/π; see `kronecker_damping`."""
        a, g = self.kronecker_factors
        damping = self._damping_of_a_use()
        if self._factor_maker.config.balance_damping:
            traces = a.trace(), a.dimension, tf.cast(g.trace(), a.dtype), g.dimension
            for_a, for_g = kronecker_damping(*traces, damping)
        else:
            for_a = for_g = tf.sqrt(damping)
        return for_a, tf.cast(for_g, g.dtype)

    def _damping_of_a_use(self) -> Tensor:
        """Returns λ', in the dtype of A."""
        dtype = self.input_factor.dtype
        times = tensor_ops.as_scalar(self.replications(), dtype)
        power = self._factor_maker.config.damping_power
        return tensor_ops.as_scalar(self._damping, dtype) / times**power

    def identity_eigenvalue(self) -> Tensor:
        """Returns T(1 + √λ')²: the damping of two identity matrices is split evenly."""
        damping = self._damping_of_a_use()
        return (
            tensor_ops.as_scalar(self.replications(), damping.dtype) * (1 + tf.sqrt(damping)) ** 2
        )

    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""
        return f"kron {self._sizes()}"

    def _sizes(self) -> str:
        return _as_text(self.matrix_shape)

    def _as_matrix(self, vector: Parameters) -> Tensor:
        """Returns V [rows of A, rows of G] of what is shaped as the parameters."""
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
    """F ≈ c·A⊗G, a vector being the rows of a matrix V [inputs, outputs] one after another.

    c is T, the number of times that the layer is applied to one example.
    """

    def register_matpower(self, exponent: float) -> None:
        """Asks for `multiply_matpower` with this exponent."""
        for factor, damping in zip(self.factors, self._dampings(), strict=True):
            factor.register_matpower(exponent, damping)

    def register_cholesky(self) -> None:
        """Asks for `multiply_cholesky`."""
        for factor, damping in zip(self.factors, self._dampings(), strict=True):
            factor.register_cholesky(damping)

    def register_cholesky_inverse(self) -> None:
        """Asks for `multiply_cholesky_inverse`."""
        for factor, damping in zip(self.factors, self._dampings(), strict=True):
            factor.register_cholesky_inverse(damping)

    def multiply_matpower(self, vector: Parameters, exponent: float) -> Parameters:
        """Returns c^e (A + π√λ'·I)^e V (G + √λ'/π·I)^e.

        Args:
          vector: Shaped as the parameters; V when written as one matrix. IndexedSlices of rows of
            V are accepted where A is diagonal.
          exponent: e.

        Returns:
          What was given, multiplied, in its dtypes; IndexedSlices with the same indices.
        """
        return self._product(vector, lambda f, d: f.get_matpower(exponent, d), exponent)

    def multiply_cholesky(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Returns c^½ L_A V L_Gᵀ, or c^½ L_Aᵀ V L_G if transposed."""
        return self._product(vector, lambda f, d: f.get_cholesky(d), 0.5, transpose)

    def multiply_cholesky_inverse(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Returns c^(−½) L_A⁻¹ V L_G⁻ᵀ, or c^(−½) L_A⁻ᵀ V L_G⁻¹ if transposed."""
        return self._product(vector, lambda f, d: f.get_cholesky_inverse(d), -0.5, transpose)

    def full_fisher_block(self) -> Tensor:
        """Returns c·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        a, g = (factor.get_cov_as_linear_operator().to_dense() for factor in self.factors)
        product = kronecker_product(a, tf.cast(g, a.dtype))
        return tensor_ops.as_scalar(self.replications(), a.dtype) * product

    def _product(
        self,
        vector: Parameters,
        get: Callable[[FisherFactor, Damping], LinearOperator],
        exponent: float,
        transpose: bool = False,
    ) -> Parameters:
        """Returns c^e L V Rᵀ, or c^e Lᵀ V R, of the operators L and R of the two factors."""
        left, right = (get(*pair) for pair in zip(self.factors, self._dampings(), strict=True))

        scale = (
            tensor_ops.as_scalar(self.replications(), self.output_factor.inverse_dtype) ** exponent
        )

        def multiplied(matrix: Tensor, rows: LinearOperator) -> Tensor:
            product = rows.left(tf.cast(matrix, self.input_factor.inverse_dtype), transpose)
            product = right.right(tf.cast(product, scale.dtype), not transpose)
            return tf.cast(scale * product, matrix.dtype)

        def multiplied_rows(x: Tensor, d: Tensor) -> Tensor:
            x = left.right(tf.cast(x, self.input_factor.inverse_dtype), not transpose)
            d = scale * right.right(tf.cast(d, scale.dtype), not transpose)
            return tf.matmul(tf.cast(x, scale.dtype), d, transpose_a=True)

        if isinstance(left, DenseOperator) and isinstance(right, DenseOperator):
            rows = low_rank.cheaper_row_product(vector)
            if rows is not None:
                return self._as_parameters(tf.cast(multiplied_rows(*rows), rows.d.dtype))
        if isinstance(vector, tf.IndexedSlices) and isinstance(left, DiagonalOperator):
            values = multiplied(vector.values, left.take(vector.indices))
            return tf.IndexedSlices(values, vector.indices, vector.dense_shape)
        return self._as_parameters(multiplied(self._as_matrix(vector), left))


def _as_text(dimensions: tuple[int, int]) -> str:
    a, g = dimensions
    return f"{a}x{a} (x) {g}x{g}"
