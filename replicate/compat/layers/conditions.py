"""Choices by `training`, which is a bool, an int or a Tensor."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def known_value(condition: Any) -> bool | None:
    """Returns the value of a condition; None for a Tensor that has none before the graph runs."""
    if tf.is_tensor(condition) or isinstance(condition, tf.Variable):
        if isinstance(condition, tf.Variable):
            return None
        value = tf.get_static_value(condition)
        return None if value is None else bool(value)
    return bool(condition)


def choose(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Calls one of two functions: at once if the condition is known, else both in a `tf.cond`."""
    known = known_value(condition)
    if known is not None:
        return if_true() if known else if_false()
    tensor = tf.convert_to_tensor(condition)
    return v1.cond(
        tensor if tensor.dtype == tf.bool else tf.cast(tensor, tf.bool), if_true, if_false
    )
