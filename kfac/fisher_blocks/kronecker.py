"""Blocks of the form c·A⊗G: damping, inverse and products.

A is the second moment of what enters a layer, G that of the gradients of what leaves it. A family
only says which factors these are and how often the layer is applied to one example. Extended by
the dense and the convolution block.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §3, §4.2 and §6.3.
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac import linalg
from kfac._types import Parameters, Scalar, Tensor
from kfac.fisher_blocks.base import FactorMaker, FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.inverse import InverseSlot


class _Half(NamedTuple):
    """One of the two factors, with the inverse that this block keeps of it."""

    factor: FisherFactor
    inverse: InverseSlot


class KroneckerBlock(FisherBlock):
    """F ≈ c·A⊗G, a vector being the rows of a matrix [inputs, outputs] one after another.

    c is the number of times T that the layer is applied to one example. The damping of each of
    these is λ/T, so that the block as a whole is damped by λ.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
        """
        super().__init__(layer_collection, params)
        self._halves: tuple[_Half, _Half] | None = None
        self._damping: Scalar = None

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
        """Gets A and G from the layer collection and asks for one damped inverse of each.

        Args:
          grads_list: Gradients of the layer's outputs, by [source][tower].
          damping: λ > 0.
        """
        self._damping = damping
        a = self._make_input_factor((self.inputs,))
        g = self._make_output_factor(tuple(tuple(towers) for towers in grads_list))
        self._halves = (
            _Half(a, a.register_inverse(f"{self.name}/input", lambda: self._split_damping()[0])),
            _Half(g, g.register_inverse(f"{self.name}/output", lambda: self._split_damping()[1])),
        )

    @property
    def _both(self) -> tuple[_Half, _Half]:
        if self._halves is None:
            raise ValueError(
                f"Layer {self.name!r} has no factors yet: an optimizer or estimator makes them "
                "after all towers have registered. Call make_vars_and_create_op_thunks() first."
            )
        return self._halves

    @property
    def input_factor(self) -> FisherFactor:
        """A, the factor of the layer's inputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self._both[0].factor

    @property
    def output_factor(self) -> FisherFactor:
        """G, the factor of the gradients of the layer's outputs.

        Raises:
          ValueError: Factors have not been made yet.
        """
        return self._both[1].factor

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """(A, G)."""
        return self.input_factor, self.output_factor

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows of A and of G that the parameters call for; from static shapes."""
        weight = as_tuple(self.params)[0]
        inputs = weight.shape[:-1].num_elements()
        return inputs + int(self.has_bias), linalg.static_size(weight, -1)

    def check_shapes(self) -> None:
        """Compares the sizes of A and G with the parameters.

        Raises:
          ValueError: They do not fit, or shapes are not static.
        """
        found = (self.input_factor.dimension, self.output_factor.dimension)
        if found != self.matrix_shape:
            raise ValueError(
                f"Cannot precondition layer {self.name!r}: its parameters need Kronecker factors "
                f"of {_sizes(self.matrix_shape)}, its registered inputs and outputs give "
                f"{_sizes(found)}. Register the tensors that enter and leave this layer, and pass "
                "(weight, bias) if, and only if, the layer has a bias."
            )

    def _split_damping(self) -> tuple[Tensor, Tensor]:
        """The damping of A and of G, π√(λ/T) and √(λ/T)/π; see `linalg.kronecker_damping`."""
        a, g = self.factors
        damping = linalg.as_scalar(self._damping, a.dtype)
        damping /= linalg.as_scalar(self.replications(), a.dtype)
        g_trace = tf.cast(g.trace(), a.dtype)
        for_a, for_g = linalg.kronecker_damping(
            a.trace(), a.dimension, g_trace, g.dimension, damping
        )
        return for_a, tf.cast(for_g, g.dtype)

    def multiply_inverse(self, vector: Parameters) -> Parameters:
        """Returns c⁻¹ (A + π√λ'·I)⁻¹ V (G + √λ'/π·I)⁻¹, with λ' = λ/T.

        Args:
          vector: A gradient, shaped as the parameters; V when written as one matrix.

        Returns:
          Tensor(s) of the shapes and dtypes of `vector`.
        """
        a_inverse, g_inverse = (half.inverse.read() for half in self._both)
        dtype = a_inverse.dtype
        matrix = tf.cast(linalg.layer_params_to_mat2d(vector), dtype)
        product = tf.matmul(tf.matmul(a_inverse, matrix), tf.cast(g_inverse, dtype))
        product /= linalg.as_scalar(self.replications(), dtype)
        narrowed = tf.cast(product, as_tuple(vector)[0].dtype)
        return linalg.mat2d_to_layer_params(self.params, narrowed)

    def full_fisher_block(self) -> Tensor:
        """Returns c·A⊗G, undamped, [inputs · outputs, inputs · outputs]."""
        a, g = self.input_factor.cov, self.output_factor.cov
        return linalg.as_scalar(self.replications(), a.dtype) * linalg.kronecker_product(a, g)

    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""
        return f"kron {_sizes(self.matrix_shape)}"


def _sizes(dimensions: tuple[int, int]) -> str:
    a, g = dimensions
    return f"{a}x{a} (x) {g}x{g}"
