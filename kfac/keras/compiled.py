"""The model that an optimizer was compiled with.

Keras gives an optimizer the variables of its model, and not the model. The model is that object on
the call stack whose `optimizer` this one is: Keras calls `build` and `apply_gradients` from its
methods. Called by the optimizers of `kfac.keras`.
"""

import inspect
from typing import Any

import tensorflow as tf
from absl import logging

from kfac.xla import is_compiled

LOSS_SCALE = (
    "the curvature is that of the loss as it is. Scale the loss function itself, or compute in the "
    "policy 'mixed_bfloat16', which needs no scaling"
)
"""Reason for which there is no `loss_scale_factor`."""


def model_of(optimizer: Any) -> Any:
    """Returns the model whose method is calling the optimizer, or None."""
    return _owner(optimizer, "optimizer")


def _owner(optimizer: Any, attribute: str) -> Any:
    """Returns the object on the call stack that has the optimizer as an attribute, or None."""
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if caller is not optimizer and getattr(caller, attribute, None) is optimizer:
            return caller
        frame = frame.f_back
    return None


def check_not_wrapped(optimizer: Any) -> None:
    """Checks that no optimizer of Keras that wraps this one is calling.

    Raises:
      ValueError: One is.
    """
    if _owner(optimizer, "inner_optimizer") is not None:
        refuse_scaled_steps()


def refuse_scaled_steps() -> None:
    """Raises the error about the policy under which Keras wraps an optimizer in another one."""
    raise ValueError(
        "Kfac cannot train under the policy 'mixed_float16', for which Keras wraps it in a "
        "LossScaleOptimizer: that scales the loss, and makes the step in a branch, where K-FAC "
        "does not see the layers. Set the policy 'mixed_bfloat16'. In Keras 3, compile(..., "
        "auto_scale_loss=False) leaves the wrapper out, if the loss needs no scaling."
    )


def turn_off_xla(model: Any) -> None:
    """Sets a model's `jit_compile` to False under several replicas, and says so in the log.

    It is called before the model's training function is made. The model may be None.
    """
    if getattr(model, "jit_compile", False) and _has_replicas():
        model.jit_compile = False
        logging.get_absl_logger().info(
            "K-FAC turns jit_compile off for model %r: XLA compiles no step of several replicas.",
            model.name,
        )


def check_one_replica() -> None:
    """Checks that no step of several replicas is being built for XLA.

    Raises:
      ValueError: One is.
    """
    if _has_replicas() and is_compiled():
        raise ValueError(
            "K-FAC cannot make a step of several replicas in a function that XLA compiles: their "
            "gradients are added up between functions. Pass jit_compile=False to compile, or to "
            "tf.function."
        )


def _has_replicas() -> bool:
    return bool(tf.distribute.get_strategy().num_replicas_in_sync > 1)
