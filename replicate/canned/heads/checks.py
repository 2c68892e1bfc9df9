"""Checks of tensors: at once where operations run eagerly, at run time in a graph."""

from collections.abc import Mapping

import tensorflow as tf

from replicate._types import Tensor
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


def checked(value: Tensor, condition: Tensor, error: str, shown: Mapping[str, Tensor]) -> Tensor:
    """Returns a Tensor that exists only if a condition, a boolean scalar, holds.

    The error is the text `error`, and the values of the Tensors `shown`, by name.

    Raises:
      ValueError: Operations run eagerly and the condition is false. In a graph, an assertion fails
        when it runs, which an Estimator raises as the same ValueError.
    """
    if tf.executing_eagerly():
        if not bool(condition):
            found = ", ".join(f"{name}: {_text(tensor)}" for name, tensor in shown.items())
            raise ValueError(f"{error} Received {found}.")
        return value
    # Braces would be taken for the places of the tensors.
    text = error.replace("{}", "{ }")
    places = ", ".join(f"{name}: {{}}" for name in shown)
    check = batch_check(condition, f"{text} Received {places}.", *shown.values())
    with v1.control_dependencies([check]):
        return tf.identity(value)


def _text(tensor: Tensor) -> str:
    """Returns the value of an eager Tensor as an error prints it."""
    if tensor.dtype == tf.string:
        return str(tf.strings.format("{}", tensor).numpy().decode(errors="replace"))
    return str(tensor.numpy())


def same_shape(first: Tensor, second: Tensor) -> Tensor:
    """Returns True, a boolean scalar, if two integer vectors agree in length and all entries."""
    equal = tf.raw_ops.Equal(x=first, y=second, incompatible_shape_error=False)
    # Vectors of lengths 1 and n are broadcast, so the lengths are compared, too.
    return tf.logical_and(tf.reduce_all(equal), tf.equal(tf.size(first), tf.size(second)))


def with_last_axis(value: Tensor, logits: Tensor) -> Tensor:
    """Adds an axis of size 1 at the end if the rank is known to be one less than the logits'."""
    if value.shape.rank is None or logits.shape.rank != value.shape.rank + 1:
        return value
    return tf.expand_dims(value, -1)
