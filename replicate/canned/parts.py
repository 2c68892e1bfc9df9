"""Parts of canned models: a network, a linear model, or a bias, each under a variable scope.

A part computes logits from features. Its variables are all those below its scope.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor, Variable
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
    """A part of a canned model.

    Attributes:
      head_scope: Name scope of a head over this part alone, "" for none.
    """

    head_scope: ClassVar[str]

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


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Nest, mode: str, params: Any, config: Any
) -> Nest:
    """Calls a function for logits with those of the arguments that it names.

    Args:
      logit_fn: fn(features, mode, params, config), all but features optional.
      features: Features of a model_fn.
      mode: One of `ModeKeys`.
      params: The model's params.
      config: The RunConfig.

    Returns:
      A Tensor of logits, or a dict of them by head name.

    Raises:
      ValueError: The function returns something else.
    """
    names = inspect.signature(logit_fn).parameters
    given = {"mode": mode, "params": params, "config": config}
    passed = {name: value for name, value in given.items() if name in names}
    logits = logit_fn(features=features, **passed)
    if isinstance(logits, tf.Tensor) or _is_dict_of_tensors(logits):
        return logits
    raise ValueError(
        f"logit_fn {getattr(logit_fn, '__name__', logit_fn)!r} must return a Tensor of logits, or "
        f"a dict of them by head name, got {logits!r}. Convert it with tf.convert_to_tensor."
    )


def _is_dict_of_tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(each, tf.Tensor) for key, each in value.items()
    )
