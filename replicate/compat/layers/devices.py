"""Devices of operations that belong to a variable."""

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def on_device_of(variable: Any) -> AbstractContextManager[None]:
    """Puts new operations on the device of a variable, whatever device scopes are open."""
    place = getattr(variable, "handle", variable)
    return v1.get_default_graph().colocate_with(place.op)
