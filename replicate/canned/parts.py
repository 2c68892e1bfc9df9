"""Parts of canned models: a network, a linear model, or a bias, each under a variable scope.

A part computes logits from features. Its variables are all those below its scope.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.model_record import Layer

v1 = tf.compat.v1


class PartLogits(NamedTuple):
    """Result of a part.

    Attributes:
      logits: [batch, units].
      variables: Trainable variables.
      layers: Records of layers of which inputs and outputs are known.
      updates: Operations that update running statistics, in TRAIN.
    """

    logits: Tensor
    variables: list[Variable]
    layers: list[Layer]
    updates: list[Operation]


class Part(Protocol):
    """A part of a canned model."""

    def build(self, features: Mapping[str, Any], units: int, mode: str, config: Any) -> PartLogits:
        """Builds the part in the default graph.

        Raises:
          ValueError: features is not a dict, or one is missing.
        """
        ...


def trainable_variables_in(scope: str) -> list[Variable]:
    """Returns the trainable variables of the default graph below a scope, by its full name."""
    return [each for each in v1.trainable_variables() if each.op.name.startswith(f"{scope}/")]


def check_units(units: Any) -> None:
    """Raises ValueError unless a number of logits is an int."""
    if isinstance(units, bool) or not isinstance(units, int):
        raise ValueError(
            f"units must be an int, the logits per example, got {units!r}. For several heads, pass "
            "the sum that MultiHead gives as logits_dimension."
        )
