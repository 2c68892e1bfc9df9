"""Checks of the types of arguments, with one sentence for what is wrong."""

from typing import Any

import tensorflow as tf


def check_type(doing: str, name: str, value: Any, is_accepted: bool, accepted: str) -> None:
    """Checks an argument.

    Args:
      doing: The beginning of the message, such as "create clones".
      name: Name of the argument.
      value: The given value.
      is_accepted: True if its type is right.
      accepted: A description of what is accepted.

    Raises:
      TypeError: It is not.
    """
    if not is_accepted:
        raise TypeError(
            f"Cannot {doing}: {name} is {value!r}, of type {type(value).__name__}. Accepted is "
            f"{accepted}."
        )


def check_sequence(doing: str, name: str, value: Any, accepted: str) -> None:
    """Checks that an argument has entries, and is no string and no tensor; as `check_type`.

    Raises:
      TypeError: It is not.
    """
    is_single = isinstance(value, str | bytes) or tf.is_tensor(value)
    is_accepted = hasattr(value, "__iter__") and not is_single
    check_type(doing, name, value, is_accepted, accepted)
