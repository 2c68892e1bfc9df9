"""The interface of all blocks of the Fisher matrix, as the estimator and the optimizer use it.

A block represents one layer's parameters. It knows the layer's tensors in each tower, names the
tensors whose gradients it needs, and multiplies vectors shaped like the parameters by functions of
its damped matrix. Each family chooses the factors. Called by the layer collection and the
estimator.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from kfac._types import Parameters, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor
from kfac.linalg.damped_functions import (
    INVERSE,
    ITSELF,
    Cholesky,
    CholeskyInverse,
    MatrixFunction,
    Power,
)
from kfac.linalg.tensor_ops import all_true
from kfac.variables import name_of


class FactorMaker(Protocol):
    """The part of a layer collection that blocks use: it makes factors and shares equal ones."""

    @property
    def config(self) -> CurvatureConfig:
        """Settings of all factors and blocks."""

    def make_or_get_factor(
        self, cls: Callable[..., FisherFactor], args: tuple[Any, ...], name: str
    ) -> FisherFactor:
        """Returns the factor `cls(*args, name=name, config=config)`, or an equal earlier one."""


def as_tuple(params: Parameters) -> tuple[Variable, ...]:
    """Returns a layer's parameters as a tuple, even if there is only one."""
    return tuple(params) if isinstance(params, (tuple, list)) else (params,)


def layer_params_to_mat2d(params: Parameters) -> Tensor:
    """Returns a layer's parameters, or anything of their shapes, as one matrix [inputs, outputs].

    They are a weight [..., outputs], whose leading axes are flattened in row-major order, or a
    tuple (weight, bias [outputs]). The bias becomes an extra last row. With a bias of several axes
    the weight has these at its end, too.
    """
    if not isinstance(params, (tuple, list)):
        columns = tf.compat.dimension_value(params.shape[-1])
        return tf.reshape(params, [-1, tf.shape(params)[-1] if columns is None else columns])
    weight, bias = params
    static = bias.shape.num_elements()
    matrix = tf.reshape(weight, [-1, tf.size(bias) if static is None else static])
    return tf.concat([matrix, tf.reshape(bias, [1, -1])], axis=0)


def mat2d_to_layer_params(template: Parameters, matrix: Tensor) -> Parameters:
    """Undoes `layer_params_to_mat2d`, for parameters with the shapes of a template."""
    is_pair = isinstance(template, (tuple, list))
    likes = template if is_pair else (template,)
    shapes = [t.shape if t.shape.is_fully_defined() else tf.shape(t) for t in likes]
    if not is_pair:
        return tf.reshape(matrix, shapes[0])
    return tf.reshape(matrix[:-1], shapes[0]), tf.reshape(matrix[-1], shapes[1])


class FisherBlock(abc.ABC):
    """One diagonal block of the Fisher matrix: that of one layer's parameters.

    Vectors to multiply are shaped as `params`: a Tensor, or a tuple of Tensors.

    A block is made of a layer collection, the layer's parameters, and arguments of its own. It has
    no tower and no factor at first. Parameters of another type are a TypeError.

    Attributes:
      params: The layer's parameter, or a tuple of its parameters.
      name: Name of the first parameter; used for variables and messages.
      factor_maker: The layer collection, which makes and shares factors.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        others = [param for param in as_tuple(params) if not hasattr(param, "op")]
        if others:
            raise TypeError(
                f"Cannot make a block {type(self).__name__} with {params!r} as its parameters. "
                "Accepted is the layer's parameter, or a tuple of its parameters, which a block "
                "is given here and not in its registration. So it needs no has_bias: write "
                f"{type(self).__name__}(layer_collection, (weight, bias), …), and register it with "
                "layer_collection.register_block(block, inputs, outputs)."
            )
        self.params: Parameters = tuple(params) if isinstance(params, list) else params
        self.name: str = name_of(as_tuple(params)[0])
        self.factor_maker = layer_collection
        self._inputs: tuple[Any, ...] = ()
        self._outputs: tuple[Any, ...] = ()
        # `instantiate_factors` sets them. A block that splits λ keeps it with its factors.
        self._made: tuple[FisherFactor, ...] = ()
        self._damping: Scalar = None

    @property
    def has_bias(self) -> bool:
        """True if the parameters are a tuple, such as (weight, bias)."""
        return isinstance(self.params, (tuple, list))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The layer's input in each tower."""
        return self._inputs

    @property
    def num_registered_towers(self) -> int:
        """Number of towers that have registered this layer."""
        return len(self._outputs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the layer in each tower."""
        return tuple(tf.nest.flatten(outputs)[0].device for outputs in self._outputs)

    def register_additional_tower(self, inputs: Any, outputs: Any) -> None:
        """Adds one tower's input of the layer, and its output, before the non-linearity."""
        self._inputs += (inputs,)
        self._outputs += (outputs,)

    def remove_last_tower(self) -> None:
        """Undoes the last `register_additional_tower`."""
        self._inputs, self._outputs = self._inputs[:-1], self._outputs[:-1]

    def tensors_to_compute_grads(self) -> tuple[Tensor, ...]:
        """Returns the tensors whose gradients the statistics need, tower after tower."""
        return tuple(tf.nest.flatten(self._outputs))

    def _gradients_by_tower(self, grads_list: Sequence[Sequence[Tensor]]) -> tuple[Any, ...]:
        """Returns gradients as [source][tower], each structured as the outputs of that tower."""
        packed = (tf.nest.pack_sequence_as(self._outputs, list(flat)) for flat in grads_list)
        return tuple(tuple(towers) for towers in packed)

    def _inputs_and_gradients(self, grads_list: Sequence[Sequence[Tensor]]) -> tuple[Any, ...]:
        """Returns (input, gradient of the output) of each tower, by [source][tower]."""
        return tuple(
            tuple(zip(self.inputs, towers, strict=True))
            for towers in self._gradients_by_tower(grads_list)
        )

    @property
    @abc.abstractmethod
    def settings(self) -> tuple[Any, ...]:
        """Settings that must be equal in all towers that register the layer."""

    @property
    def made_factors(self) -> tuple[FisherFactor, ...]:
        """The factors of this block; empty before `instantiate_factors`."""
        return self._made

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors of this block.

        Raises:
          ValueError: Factors have not been made yet.
        """
        if not self.made_factors:
            raise self._not_instantiated()
        return self.made_factors

    @abc.abstractmethod
    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets the factors from the layer collection.

        Args:
          grads_list: For each source the gradients of `tensors_to_compute_grads()`, in its order.
          damping: λ > 0.
        """

    @abc.abstractmethod
    def check_shapes(self) -> None:
        """Compares the registered tensors with the parameters.

        Raises:
          ValueError: The shapes do not fit; the message names the layer.
        """

    # Functions of the damped block: registered after `instantiate_factors`, before variables exist.

    @abc.abstractmethod
    def register(self, function: MatrixFunction) -> None:
        """Registers a function of the damped block, so that `multiply_function` can use it.

        Raises:
          ValueError: The approximation does not allow it.
        """

    @abc.abstractmethod
    def multiply_function(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters:
        """Returns a function f of the damped block, or its transpose, times a vector.

        Args:
          function: f, registered before; `ITSELF` needs no registration.
          vector: v, shaped as the parameters.
          transpose: True to multiply by the transpose.

        Raises:
          ValueError: f is not registered, or the approximation does not allow it.
        """

    def product_or_identity(
        self, function: MatrixFunction, vector: Parameters, transpose: bool = False
    ) -> Parameters | None:
        """Returns the product, or before the inverse is known that with damped identity matrices.

        Returns None if the block has no faster way than to compute them one by one; see
        `kfac.curvature.block_products.product_or_identity`. The arguments are those of
        `multiply_function`.
        """
        del function, vector, transpose
        return None

    @abc.abstractmethod
    def identity_eigenvalue(self) -> Scalar:
        """Returns the eigenvalue that the damped block has if its factors are identity matrices.

        It is a number if all that it depends on is, else a Tensor [].
        """

    def has_inverse(self) -> Tensor:
        """Returns bool [], true once the inverse has been computed; before, products are zero."""
        return all_true([factor.has_inverse() for factor in self.factors])

    @property
    def multiplies_slices(self) -> bool:
        """True if `multiply_function` takes IndexedSlices of the first parameter's rows, too."""
        return False

    def trace(self, factor_traces: Mapping[str, Tensor]) -> Tensor:
        """Returns the trace of the undamped block, shape [].

        `factor_traces` are the traces of its factors, shape [] each, by their names.
        """
        return tf.add_n([factor_traces[factor.name] for factor in self.factors])

    def register_matpower(self, exponent: float) -> None:
        """Registers `multiply_matpower` with this exponent; 1 needs no registration."""
        self.register(Power(exponent))

    def register_inverse(self) -> None:
        """Registers `multiply_inverse`."""
        self.register(INVERSE)

    def register_cholesky(self) -> None:
        """Registers `multiply_cholesky`."""
        self.register(Cholesky())

    def register_cholesky_inverse(self) -> None:
        """Registers `multiply_cholesky_inverse`."""
        self.register(CholeskyInverse())

    def multiply(self, vector: Parameters) -> Parameters:
        """Returns the damped block times a vector."""
        return self.multiply_function(ITSELF, vector)

    def multiply_inverse(self, vector: Parameters) -> Parameters:
        """Returns the inverse of the damped block times a vector."""
        return self.multiply_function(INVERSE, vector)

    def multiply_matpower(self, vector: Parameters, exponent: float) -> Parameters:
        """Returns the damped block to a power times a vector."""
        return self.multiply_function(Power(exponent), vector)

    def multiply_cholesky(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Returns B, or Bᵀ, times a vector, where BBᵀ is the damped block."""
        return self.multiply_function(Cholesky(), vector, transpose)

    def multiply_cholesky_inverse(self, vector: Parameters, transpose: bool = False) -> Parameters:
        """Returns B⁻¹, or its transpose, times a vector, where BBᵀ is the damped block."""
        return self.multiply_function(CholeskyInverse(), vector, transpose)

    @abc.abstractmethod
    def full_fisher_block(self) -> Tensor:
        """Returns the undamped block as one matrix; large, meant for tests."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""

    def _not_instantiated(self) -> ValueError:
        return ValueError(
            f"Layer {self.name!r} has no factors yet: an optimizer or estimator makes them "
            "after all towers have registered. Call make_vars_and_create_op_thunks() first."
        )
