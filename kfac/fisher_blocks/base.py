"""What the estimator and the optimizer ask of any block of the Fisher matrix.

A block stands for one layer's parameters. It knows the layer's tensors in each tower, says of
which it needs gradients, and multiplies vectors shaped like the parameters by its inverse. Which
factors it uses is a family's business. Called by the layer collection and the estimator.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kfac._types import Parameters, Scalar, Tensor, Variable
from kfac.fisher_factors.base import FisherFactor


class FactorMaker(Protocol):
    """Where blocks get their factors: the layer collection, which shares equal ones."""

    def make_or_get_factor(
        self, cls: Callable[..., FisherFactor], args: tuple[Any, ...], name: str
    ) -> FisherFactor:
        """Returns the factor `cls(*args, name=name)`, or an equal one made earlier."""


def as_tuple(params: Parameters) -> tuple[Variable, ...]:
    """Returns a layer's parameters as a tuple, also if there is only one."""
    return tuple(params) if isinstance(params, (tuple, list)) else (params,)


class FisherBlock(abc.ABC):
    """One diagonal block of the Fisher matrix: that of one layer's parameters.

    Attributes:
      params: The layer's weight, or (weight, bias).
      name: Name of the weight; used for variables and messages.
    """

    def __init__(self, layer_collection: FactorMaker, params: Parameters) -> None:
        """Registers no tower and makes no factor yet.

        Args:
          layer_collection: Makes and shares factors.
          params: The layer's weight, or (weight, bias).
        """
        self.params = params
        self.name: str = as_tuple(params)[0].op.name
        self._factor_maker = layer_collection
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []

    @property
    def has_bias(self) -> bool:
        """Whether the parameters are (weight, bias)."""
        return isinstance(self.params, (tuple, list))

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The layer's input in each tower."""
        return tuple(self._inputs)

    @property
    def num_registered_towers(self) -> int:
        """How many towers have registered this layer."""
        return len(self._outputs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the layer in each tower."""
        return tuple(tensor.device for tensor in self._outputs)

    def register_additional_tower(self, inputs: Tensor, outputs: Tensor) -> None:
        """Adds one tower's tensors.

        Args:
          inputs: What enters the layer.
          outputs: What leaves it, before the non-linearity.
        """
        self._inputs.append(inputs)
        self._outputs.append(outputs)

    def tensors_to_compute_grads(self) -> tuple[Tensor, ...]:
        """Returns the tensor of each tower whose gradient the statistics need."""
        return tuple(self._outputs)

    @property
    @abc.abstractmethod
    def settings(self) -> tuple[Any, ...]:
        """All that must be equal when another tower registers the layer."""

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[FisherFactor, ...]:
        """The factors of this block, after `instantiate_factors`."""

    @abc.abstractmethod
    def instantiate_factors(self, grads_list: Sequence[Sequence[Tensor]], damping: Scalar) -> None:
        """Gets the factors from the layer collection.

        Args:
          grads_list: Gradients of `tensors_to_compute_grads()`, by [source][tower].
          damping: λ > 0.
        """

    @abc.abstractmethod
    def check_shapes(self) -> None:
        """Compares the registered tensors with the parameters.

        Raises:
          ValueError: They do not fit; the message names the layer.
        """

    @abc.abstractmethod
    def multiply_inverse(self, vector: Parameters) -> Parameters:
        """Returns the damped inverse of this block times `vector`, which is shaped as `params`."""

    @abc.abstractmethod
    def full_fisher_block(self) -> Tensor:
        """Returns the undamped block as one matrix; large, meant for tests."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns a short text such as "kron 401x401 (x) 16x16"."""
