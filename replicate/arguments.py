"""Checks of arguments that several modules share."""

from typing import Any, get_args


def check_choice(name: str, value: object, choices: Any) -> None:
    """Checks an argument that takes one of the strings of a Literal type.

    Raises:
      ValueError: The value is not one of the choices.
    """
    if value not in get_args(choices):
        accepted = ", ".join(map(repr, get_args(choices)))
        raise ValueError(f"{name} must be one of {accepted}; got {value!r}.")
