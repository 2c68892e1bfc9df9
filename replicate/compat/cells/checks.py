"""Checks of the arguments of cells."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate.compat.layers import by_name

Activation = Callable[[Any], Any]
_LIKE_CELL = ("output_size", "state_size")
_MAKES_STATE = ("zero_state", "get_initial_state")


def is_cell(value: Any) -> bool:
    """Returns True if a value can be used as a cell, whatever class it is of."""
    return (
        callable(value)
        and all(hasattr(value, name) for name in _LIKE_CELL)
        and any(hasattr(value, name) for name in _MAKES_STATE)
    )


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Refuses what is no cell.

    Args:
      cell_name: Name of the argument, for the message.
      cell: Its value.

    Raises:
      TypeError: It is no cell.
    """
    if not is_cell(cell):
        raise TypeError(
            f"The argument {cell_name} must be a cell: a callable with state_size, output_size "
            f"and zero_state. Got {cell!r}."
        )


def checked_cell(user: str, cell: Any) -> Any:
    """Returns a cell that is given to a class.

    Raises:
      TypeError: It is no cell.
    """
    if not is_cell(cell):
        raise TypeError(f"{user} takes a cell, got {cell!r}.")
    return cell


def known_width(cell: str, shape: Any) -> int:
    """Returns the last dimension of the inputs of a cell.

    Raises:
      ValueError: It is unknown.
    """
    dimensions = tf.TensorShape(shape)
    width = dimensions.as_list()[-1] if dimensions.rank else None
    if width is None:
        raise ValueError(f"{cell} needs inputs whose last dimension is known, got {shape}.")
    return int(width)


def activation_of(given: Activation | str | None) -> Activation:
    """Returns the activation of a cell: a function, that of a name such as "relu", tanh for None.

    Raises:
      ValueError: There is no activation of this name.
      TypeError: It is neither a name nor a function, nor None.
    """
    return tf.tanh if given is None else by_name.activation(given) or tf.identity
