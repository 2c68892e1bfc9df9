"""Modules of TensorFlow 1, made from the table: tf.estimator, tensorflow_estimator and tf.contrib.

A name is looked up when it is used. So a module can be made before TensorFlow is loaded, and a
part that is not installed fails where it is used.
"""

import difflib
import functools
import importlib
import re
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from replicate.absent_names import HINTS
from replicate.compat.absent import OldNameError, absent, is_absent
from replicate.compat.table import (
    CONTRIB,
    ESTIMATOR,
    MISSING,
    PRIVATE,
    PRIVATE_MODULES,
    PUBLIC_OF_PRIVATE,
    Row,
    names_below,
    public_row,
    row_of,
)

_NOT_HERE = "It has no counterpart in replicate."
_CONTRIB_API = "replicate.v1"


class OldModule(types.ModuleType):
    """A module of TensorFlow 1, whose names are looked up in the table."""

    def __init__(self, path: str, api: str) -> None:
        """Makes the module of a path in the table, such as "tf.estimator.export".

        The api is "replicate" for the defaults of TensorFlow 2, "replicate.v1" for those of 1.
        """
        name = re.sub(r"^tf\.", "tensorflow.", path)
        super().__init__(name, f"The {path} of TensorFlow 1, made of the names of replicate.")
        self.__path__: list[str] = []
        self._path = path
        self._api = api

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # An import of "*" asks for it.
            return [each for each in dir(self) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(f"module {self._path!r} has no attribute {name!r}")
        value = _lookup(f"{self._path}.{name}", self._api)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*_names(self._path), *_names_of_replacement(self._path, self._api)})


@functools.cache
def old_module(path: str, api: str) -> OldModule:
    """Returns the module of a path, always the same one; the arguments are those of `OldModule`."""
    return OldModule(path, api)


def is_old_module(path: str) -> bool:
    """Returns True if a path in the table is that of a module, and not of a name in it."""
    private = path.removeprefix(f"{PRIVATE}.")
    return (
        path in (ESTIMATOR, CONTRIB, PRIVATE)
        or PRIVATE.startswith(f"{path}.")
        or (private != path and private in PRIVATE_MODULES)
        or bool(names_below(path))
    )


def _names(path: str) -> Iterable[str]:
    if path.startswith(PRIVATE):
        return names_below(path).union(*(names_below(each) for each in PUBLIC_OF_PRIVATE))
    return names_below(path)


def _names_of_replacement(path: str, api: str) -> Iterable[str]:
    """Returns the names of the package that stands for a whole package of TensorFlow 1."""
    row = row_of(f"{path}.*")
    if row is None or row.old != f"{path}.*":
        return ()
    replacement = _replacement(path, row, api)
    return () if is_absent(replacement) else dir(replacement)


def _lookup(path: str, api: str) -> Any:
    if path == "tensorflow_estimator.estimator":
        return old_module(ESTIMATOR, "replicate")
    row = row_of(path)
    if is_old_module(path) and (row is None or row.old != path):
        return old_module(path, api)
    if row is not None:
        return _replacement(path, row, api)
    package, _, name = path.rpartition(".")
    if package.startswith(PRIVATE):
        return _private_name(package, name, api)
    text = f"module {package!r} has no attribute {name!r}."
    advice = HINTS.get(name) or _alike(name, _names(package))
    raise OldNameError(f"{text} {advice}" if advice else text)


def _alike(name: str, names: Iterable[str]) -> str:
    alike = difflib.get_close_matches(name, list(names), 1, cutoff=0.75)
    return f"Did you mean {alike[0]}?" if alike else ""


def _private_name(package: str, name: str, api: str) -> Any:
    """Finds a name of a private module among the public ones of tf.estimator."""
    if package.startswith(f"{PRIVATE}.api"):
        return getattr(old_module(ESTIMATOR, _api_of(package, api)), name)
    row = public_row(name)
    if row is None:
        return absent(f"{package}.{name}", HINTS.get(name, _NOT_HERE))
    return _replacement(row.old, row, "replicate" if name.endswith("V2") else api)


def _api_of(package: str, api: str) -> str:
    return "replicate" if "._v2" in package else api


def _replacement(path: str, row: Row, api: str) -> Any:
    if row.new is None:
        return absent(path, row.difference)
    new = row.new
    if row.old.endswith(".*"):
        new += path[len(row.old) - 2 :]
    root, _, rest = new.partition(".")
    if root == "replicate" and path.startswith((ESTIMATOR, PRIVATE)) and "." not in rest:
        root = api
    try:
        value = _found(root, rest)
        return with_old_arguments(value, row.keywords) if row.keywords else value
    except (AttributeError, ModuleNotFoundError) as error:
        missing = MISSING.get(getattr(error, "name", None) or "")
        if isinstance(error, ModuleNotFoundError) and missing:
            return absent(path, missing)
        if isinstance(error, ModuleNotFoundError) and root in MISSING:
            return absent(path, f"It needs {root}, which cannot be imported: {error}.")
        hint = HINTS.get(path.rpartition(".")[2]) or HINTS.get(rest.partition(".")[0])
        if path.startswith(f"{CONTRIB}.") and row.old.endswith(".*"):
            return absent(path, hint or _NOT_HERE)
        return absent(path, hint or f"There is no {new} here. {row.difference}".rstrip())


def _found(root: str, rest: str) -> Any:
    """Imports a dotted name, as far as it is a module, and reads the rest.

    A name of tf.contrib is looked up in the table again: so old private modules stand for public
    ones.
    """
    value: Any
    if root == "tf" and rest.startswith("contrib."):
        value = old_module(CONTRIB, _CONTRIB_API)
        rest = rest.removeprefix("contrib.")
    elif root == "tf":
        value = importlib.import_module("tensorflow").compat.v1
    else:
        value = importlib.import_module(root)
    parts = filter(None, rest.split("."))
    module = root
    for part in parts:
        module = f"{module}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            if root == "tf":
                raise
            value = importlib.import_module(module)
    return value


def with_old_arguments(
    function: Callable[..., Any], keywords: Sequence[tuple[str, str]]
) -> Callable[..., Any]:
    """Returns a function that takes the old arguments, by keywords as in `Row`.

    It raises a TypeError for more positional arguments than there are keywords.
    """
    renamed = dict(keywords)
    order = [new for _, new in keywords]

    @functools.wraps(function)
    def with_old(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(
                f"{function.__name__} takes {len(order)} positional arguments, "
                f"{', '.join(renamed)}; got {len(args)}."
            )
        named = {renamed.get(name, name): value for name, value in kwargs.items()}
        return function(**dict(zip(order, args, strict=False)), **named)

    return with_old
