"""Decorators that warn of functions and arguments that are about to go."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

v1 = tf.compat.v1

Function = TypeVar("Function", bound=Callable[..., Any])
_ABSENT = object()


class _Warning:
    """A warning about a function, logged once or at each call."""

    def __init__(self, text: str, date: str | None, instructions: str, once: bool) -> None:
        when = f"after {date}" if date else "in a future version"
        self._text = f"{text} is deprecated and goes away {when}. {instructions}"
        self._once = once
        self._was_logged = False

    def log(self) -> None:
        """Logs the warning, unless it is due once and was logged."""
        if not (self._once and self._was_logged):
            v1.logging.warning("%s", self._text)
        self._was_logged = True


def deprecated(
    date: str | None, instructions: str, warn_once: bool = True
) -> Callable[[Function], Function]:
    """Makes a decorator of a function or class, whose calls warn once, or each time.

    It goes away on a date, as in "2018-12-31"; the instructions are a sentence with the
    replacement.
    """

    def decorate(function: Function) -> Function:
        warning = _Warning(function.__qualname__, date, instructions, warn_once)
        if inspect.isclass(function):
            return _warning_class(function, warning)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warning.log()
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def _warning_class(kind: Any, warning: _Warning) -> Any:
    construct = kind.__init__

    @functools.wraps(construct)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        warning.log()
        construct(self, *args, **kwargs)

    kind.__init__ = call
    return kind


def deprecated_args(
    date: str | None, instructions: str, *names: Any, warn_once: bool = True
) -> Callable[[Function], Function]:
    """Makes a decorator of a function, which warns when arguments are given.

    Names are those of arguments, or pairs of a name and the value that does not warn. The other
    arguments are those of `deprecated`.
    """
    harmless: dict[str, Any] = dict(
        each if isinstance(each, tuple) else (each, _ABSENT) for each in names
    )

    def is_given(name: str, value: Any) -> bool:
        return name in harmless and value is not harmless[name]

    return _argument_decorator(is_given, date, instructions, warn_once)


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **values: Any
) -> Callable[[Function], Function]:
    """Makes a decorator of a function, which warns when arguments have certain values.

    The values are by the names of the arguments. The other arguments are those of `deprecated`.
    """

    def is_deprecated(name: str, value: Any) -> bool:
        return name in values and bool(value == values[name])

    return _argument_decorator(is_deprecated, date, instructions, warn_once)


def _argument_decorator(
    warns: Callable[[str, Any], bool], date: str | None, instructions: str, once: bool
) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        warning = _Warning(f"An argument of {function.__qualname__}", date, instructions, once)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            if any(warns(name, value) for name, value in given.items()):
                warning.log()
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
