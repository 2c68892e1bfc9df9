"""The moving average of a statistic, in a variable."""

from typing import Any

import tensorflow as tf

from replicate.compat.layers.devices import on_device_of

v1 = tf.compat.v1


def move_towards(variable: Any, value: Any, momentum: Any) -> Any:
    """Moves an average m towards a value x: m ← m − (1 − d)(m − x).

    Args:
      variable: The average m.
      value: Tensor x of its shape.
      momentum: Weight d of the old average in [0, 1], a number or a Tensor.

    Returns:
      The assignment, whose operation is called "AssignMovingAvg".
    """
    dtype = variable.dtype.base_dtype
    with v1.name_scope("AssignMovingAvg") as scope, on_device_of(variable):
        rate = tf.cast(tf.convert_to_tensor(1.0 - momentum, name="decay"), dtype)
        return v1.assign_sub(variable, (variable - tf.cast(value, dtype)) * rate, name=scope)
