"""Calls with the arguments in the order of an older document, for the tutorials' functions.

tf.contrib.kfac's examples took the folder of the data before the number of epochs, those of
tensorflow/kfac take no folder. `in_older_order` accepts both orders. It refuses a mixture, with
both in the text.
"""

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

Result = TypeVar("Result")

FOLDER = (str, os.PathLike, type(None))
"""Types of the folder of the data; None means none."""


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


_EXPECTED: Mapping[str, tuple[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "data_dir": ("a folder or None", lambda x: isinstance(x, FOLDER)),
        "num_epochs": ("an integer", _is_integer),
        "num_towers": ("an integer or None", lambda x: x is None or _is_integer(x)),
        "use_fake_data": ("True or False", lambda x: isinstance(x, bool)),
        "device": ("a device's name or None", lambda x: x is None or isinstance(x, str)),
        "devices": (
            "a list of devices or None",
            lambda x: x is None or (isinstance(x, Sequence) and not isinstance(x, str)),
        ),
    }
)
"""Name of an argument -> its values in words, and the test of a value."""


def in_older_order(
    *older: str, told_by: str, kinds: type | tuple[type, ...] = FOLDER
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Returns a decorator that lets a function take its positional arguments in a second order.

    Args:
      *older: Names of the arguments in the second order.
      told_by: The one of them that tells the orders apart: a call is in the second order if the
        value at its place there has one of `kinds`.
      kinds: Types of that value.

    Returns:
      The decorator. The function that it makes raises TypeError, with both orders in the text, for
      an argument that fits neither of them.
    """
    place = older.index(told_by)

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Result:
            if place < len(args) <= len(older) and isinstance(args[place], kinds):
                repeated = set(older[: len(args)]) & set(named)
                if repeated:
                    raise TypeError(_mistake(function, older, f"{min(repeated)} is given twice"))
                named, args = {**dict(zip(older, args, strict=False)), **named}, ()
            for name, value in signature.bind(*args, **named).arguments.items():
                expected, is_meant = _EXPECTED.get(name, ("", lambda _: True))
                if not is_meant(value):
                    wrong = f"{name} must be {expected}, got {value!r}"
                    raise TypeError(_mistake(function, older, wrong))
            return function(*args, **named)

        return call

    return decorate


def _mistake(function: Callable[..., Any], older: Sequence[str], wrong: str) -> str:
    """Returns the text of an error, with both orders of the arguments."""
    own = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    return (
        f"{function.__name__}: {wrong}. Give the arguments as ({', '.join(own)}), the order of "
        f"tensorflow/kfac's examples, or as ({', '.join(older)}), that of tf.contrib.kfac's; or "
        "name them."
    )
