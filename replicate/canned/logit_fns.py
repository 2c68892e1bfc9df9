"""Calls of functions that compute logits."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Nest


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
