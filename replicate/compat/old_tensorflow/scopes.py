"""Scopes of names, with the arguments of TensorFlow 1."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class name_scope(v1.name_scope):  # noqa: N801  # The name of TensorFlow 1.
    """`tf.compat.v1.name_scope`, whose second argument may also be the values."""

    def __init__(
        self, name: str | None, default_name: Any = None, values: Any = None, **kwargs: Any
    ) -> None:
        """Takes a default name that is no string for the values, which have no effect in a graph.

        Raises:
          TypeError: Neither name nor default_name is a string, and values are given.
        """
        if default_name is not None and not isinstance(default_name, str):
            default_name, values = None, default_name if values is None else values
        super().__init__(name, default_name, values, **kwargs)
