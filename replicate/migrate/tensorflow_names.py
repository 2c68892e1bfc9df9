"""Checks that names exist, in the TensorFlow that is installed and in what takes its place.

TensorFlow is loaded when the first name is checked. Without TensorFlow, nothing is checked.
"""

import functools
import importlib
import importlib.util
import types
from typing import Any

from replicate.quiet_imports import quiet_stderr

_V2 = (
    "TensorFlow 1 has no such name, TensorFlow 2 has: write tf.compat.v2.{rest}, or leave a "
    "program of TensorFlow 2 as it is."
)
_GONE = "TensorFlow {version} has no tf.compat.v1.{rest}."
_NO_MODULE = "TensorFlow {version} has no {name}."
_LAZY = ("tf.keras",)  # Keras 3 hides names of it, legacy Keras has them.
_REAL = ("compiler", "core", "lite", "python", "tools")


@functools.cache
def _tensorflow() -> Any:
    """Returns TensorFlow, None if it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return None
    with quiet_stderr():
        return importlib.import_module("tensorflow")


def missing(path: str) -> str | None:
    """Returns what is wrong with a name of the table, None if it is there in TensorFlow 1.

    Attributes of classes are not checked.
    """
    tensorflow = _tensorflow()
    _, _, rest = path.partition(".")
    if tensorflow is None or not rest or f"{path}.".startswith(tuple(f"{e}." for e in _LAZY)):
        return None
    if rest.split(".")[0] in _REAL:
        name = f"tensorflow.{rest}"
        text = _NO_MODULE.format(version=tensorflow.__version__, name=name)
        return None if _is_there(name) else text
    if _has(tensorflow.compat.v1, rest):
        return None
    text = _V2 if _has(tensorflow, rest) else _GONE
    return text.format(version=tensorflow.__version__, rest=rest)


def is_of_v2(path: str) -> bool:
    """Returns True for a name that TensorFlow 2 has and TensorFlow 1 has not."""
    return (missing(path) or "").startswith("TensorFlow 1 ")


def missing_replacement(new: str) -> str | None:
    """Returns what is wrong with a new name, None if it is there or in no installed package."""
    root = new.partition(".")[0]
    if root == "tf":
        return missing(new)
    if _tensorflow() is None or importlib.util.find_spec(root) is None:
        return None
    with quiet_stderr():
        return None if _is_there(new) else f"There is no {new} here."


def _has(value: Any, rest: str) -> bool:
    """Returns True if a module has a dotted name, as far as that leads through modules."""
    for name in rest.split("."):
        if not isinstance(value, types.ModuleType):
            return True
        try:
            value = getattr(value, name)
        except AttributeError:
            return False
    return True


@functools.cache
def _is_there(name: str) -> bool:
    """Returns True if a dotted name can be imported, or is an attribute of what can be."""
    parts = name.split(".")
    value: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        if not isinstance(value, types.ModuleType):
            return True
        try:
            value = getattr(value, part)
        except AttributeError:
            module = ".".join(parts[:number])
            try:
                value = importlib.import_module(module)
            except ImportError:
                return False
    return True
