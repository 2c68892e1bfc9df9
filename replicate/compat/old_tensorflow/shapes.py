"""Transposed convolutions, whose static shapes are those that a program gives."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def _with_given_shape(function: Callable[..., Any], position: int, *names: str) -> Any:
    """Returns a function whose result has the static shape of an argument.

    The argument is an int32 Tensor or a list; the parts of it that are not known leave the
    dimension as it is.

    Args:
      function: An operation.
      position: Position of the argument.
      *names: Names of the argument.
    """

    @functools.wraps(function)
    def shaped(*args: Any, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        given = args[position] if len(args) > position else None
        given = next((kwargs[name] for name in names if name in kwargs), given)
        if isinstance(result, tf.Tensor) and given is not None:
            known = tf.get_static_value(tf.convert_to_tensor(given), partial=True)
            if known is not None:
                result.set_shape([None if each is None else int(each) for each in known])
        return result

    return shaped


conv1d_transpose = _with_given_shape(v1.nn.conv1d_transpose, 2, "output_shape")
conv2d_transpose = _with_given_shape(v1.nn.conv2d_transpose, 2, "output_shape")
conv3d_transpose = _with_given_shape(v1.nn.conv3d_transpose, 2, "output_shape")
conv2d_backprop_input = _with_given_shape(v1.nn.conv2d_backprop_input, 0, "input_sizes")
