"""Record of a canned model, for optimizers that need more than a loss: losses, layers, variables.

An estimator hands the record to `register(model)` of an optimizer function that has such a method,
in each tower, before the optimizer is made. K-FAC registers layers and losses from it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import tensorflow as tf

from replicate._types import Tensor, Variable

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer of a model: a product with a kernel, or a look-up of its rows.

    Attributes:
      kind: "dense": a product inputs · kernel, and a bias. "embedding": outputs are the rows of the
        kernel that the inputs number; a row is left out of the model where an example has no id.
      kernel: Variable [inputs, outputs], or [ids, outputs] of an embedding.
      bias: Variable [outputs], or None. It is added to the product, be it after other products, as
        in a linear model of several columns.
      inputs: [batch, inputs], or ids [batch] of an embedding.
      outputs: [batch, outputs], before the activation, with or without the bias.
    """

    kind: Literal["dense", "embedding"]
    kernel: Variable
    bias: Variable | None
    inputs: Tensor
    outputs: Tensor


@dataclasses.dataclass(frozen=True)
class ModelRecord:
    """A model in TRAIN, or the part of it that one optimizer trains.

    Attributes:
      losses: Losses of the head, as its method `curvature_losses` returns them; None if the head
        does not know them.
      layers: Layers of which all inputs and outputs are known.
      variables: All variables that the optimizer trains, also those of no layer.
      loss_reduction: Reduction of the head. With a SUM the training loss is the sum over examples
        of what `losses` describe, else the mean.
      head: Name of the head's class, for errors.
      known_losses: Losses that are known, for errors.
    """

    losses: tuple[Any, ...] | None
    layers: tuple[Layer, ...]
    variables: tuple[Variable, ...]
    loss_reduction: str
    head: str
    known_losses: str = (
        "the heads of classes, labels and squared errors without a loss_fn of your own, not for "
        "Poisson regression or other heads"
    )


@runtime_checkable
class RegistersModel(Protocol):
    """A function that makes an optimizer, and is told about the model before."""

    def register(self, model: ModelRecord) -> None:
        """Takes the record of the model of the current tower; called in each tower."""

    def __call__(self) -> Any:
        """Returns the optimizer; called after `register`."""


def register_model(optimizer: Any, record: Callable[[], ModelRecord]) -> None:
    """Tells an optimizer function with a method `register` about the model of the current tower."""
    if isinstance(optimizer, RegistersModel) and not isinstance(optimizer, v1.train.Optimizer):
        optimizer.register(record())
