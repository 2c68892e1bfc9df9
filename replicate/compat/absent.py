"""Absent names: old names without a counterpart, which can be imported and fail when used.

An absent name is a class, so that a module which derives from it, tests for it with isinstance or
names it as a default value can be imported. Making an instance of it, calling it or deriving an
instance from it is its use.
"""

import abc
import sys
import types
from typing import Any

_OURS = __name__.rpartition(".")[0]


class OldNameError(AttributeError):
    """A program used a name of TensorFlow 1 that is not here, or of TensorFlow 2.

    The message has the name, the line of the program, and what to use instead.
    """


class _AbsentType(abc.ABCMeta):
    """Type of absent names."""

    path: str
    advice: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise error_of_use(cls.path, cls.advice)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name == "_abc_impl":
            raise AttributeError(name)
        return absent(f"{cls.path}.{name}", cls.advice)

    def __repr__(cls) -> str:
        return f"<absent name {cls.path}>"


def absent(path: str, advice: str) -> Any:
    """Makes an absent name, a class whose attributes are absent names, too.

    The advice is one or more sentences that say what to use instead.
    """
    return _AbsentType(
        path.rpartition(".")[2],
        (),
        {"path": path, "advice": advice, "__doc__": advice, "__module__": path.rpartition(".")[0]},
    )


def is_absent(value: Any) -> bool:
    """Returns True for an absent name."""
    return isinstance(value, _AbsentType)


def error_of_use(path: str, advice: str) -> OldNameError:
    """Returns the error for the use of a name, with the line that uses it."""
    return OldNameError(f"{path} cannot be used ({line_of_program()}). {advice}")


def line_of_program() -> str:
    """Returns file and line of the innermost frame outside of this package and of importlib."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return "unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_machinery(module: str) -> bool:
    return module == "abc" or module.startswith((_OURS, "importlib."))
