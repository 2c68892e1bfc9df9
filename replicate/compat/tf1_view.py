"""The TensorFlow 1 that old programs see: `tf.compat.v1`, with tf.estimator and tf.contrib.

`TensorFlow1` is the module that `import tensorflow as tf` gives to a program of TensorFlow 1.
`view_builtins` makes the builtins of its modules, whose `__import__` gives that module; all other
modules of the process import TensorFlow as ever.
"""

import builtins
import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replicate.compat.absent import absent, error_of_use, is_absent
from replicate.compat.library_views import LOST_FROM, view_of
from replicate.compat.old_libraries.attributes import old_attribute
from replicate.compat.old_libraries.files import open_file
from replicate.compat.old_libraries.versions import VersionText
from replicate.compat.old_modules import is_old_module, old_module
from replicate.compat.python2.loading import MARK
from replicate.compat.python2.translation import is_installed
from replicate.compat.source_code import FORMAT, OLD_ATTRIBUTE, compiled
from replicate.compat.table import (
    CHANGED_PACKAGES,
    CONTRIB,
    ESTIMATOR,
    PRIVATE,
    TABLE,
    names_below,
    row_of,
)

VERSION = VersionText("1.15.5")
"""The version that programs find: the last TensorFlow 1. It compares as versions do."""

_API = "replicate.v1"
_SLIM = "tf_slim"
_PARTS = ("core", "lite", "tools", "tsl")
TF2 = (
    "TensorFlow 1 has no such name: run a program of TensorFlow 2 with `python PROGRAM`, without "
    "replicate.compat."
)


class _Compat(types.ModuleType):
    """`tf.compat` as a program of TensorFlow 1 sees it: its v1 is the view."""

    def __init__(self, view: "TensorFlow1") -> None:
        super().__init__("tensorflow.compat")
        self.v1 = view

    def __getattr__(self, name: str) -> Any:
        if name == "v2":
            return importlib.import_module("tensorflow").compat.v2
        return getattr(importlib.import_module("tensorflow").compat.v1.compat, name)


class TensorFlow1(types.ModuleType):
    """TensorFlow as programs of TensorFlow 1 see it."""

    def __init__(self) -> None:
        super().__init__("tensorflow", "TensorFlow 1: tf.compat.v1, tf.estimator and tf.contrib.")
        self.__version__ = self.VERSION = VERSION
        self.compat = _Compat(self)
        self.estimator = old_module(ESTIMATOR, _API)
        self.contrib = old_module(CONTRIB, _API)
        self.examples = old_module("tf.examples", _API)

    def __getattr__(self, name: str) -> Any:
        real = importlib.import_module("tensorflow")
        if name.startswith("__"):
            return getattr(real, name)
        if name in _MODULES:
            return _MODULES[name]()
        if _is_changed(f"tf.{name}"):
            return _changed(f"tf.{name}")
        try:
            return getattr(real.compat.v1, name)
        except AttributeError:
            if name in _PARTS and f"tensorflow.{name}" in sys.modules:
                return sys.modules[f"tensorflow.{name}"]
            advice = TF2 if hasattr(real, name) else "TensorFlow 1 has no such name."
            raise error_of_use(f"tf.{name}", advice) from None

    def __dir__(self) -> list[str]:
        names = dir(importlib.import_module("tensorflow").compat.v1)
        return sorted({*names, "compat", "contrib", "estimator", "layers"})


class _Overlay(types.ModuleType):
    """A module of TensorFlow, with the names of the table before its own ones.

    What a program sets is set in TensorFlow's module.
    """

    def __init__(self, path: str) -> None:
        super().__init__(re.sub(r"^tf\.", "tensorflow.", path))
        vars(self).update(__path__=[], _path=path)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # An import of "*" asks for it.
            return [each for each in dir(self) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        if _is_changed(path):
            return _changed(path)
        if self._is_private() and _is_overlaid(path):
            value = _overlay(path) if is_old_module(path) else getattr(_table(self._path), name)
            if not is_absent(value):
                return value
            with contextlib.suppress(AttributeError, ModuleNotFoundError):
                return self._own(name)
            return value
        try:
            return self._own(name)
        except ModuleNotFoundError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value
        if not name.startswith("__"):
            with contextlib.suppress(ModuleNotFoundError):
                setattr(self._real(), name, value)

    def __dir__(self) -> list[str]:
        names = set(names_below(self._path)) if self._is_private() else set()
        with contextlib.suppress(ModuleNotFoundError):
            names.update(dir(self._real()))
        return sorted(names)

    def _is_private(self) -> bool:
        return f"{self._path}.".startswith("tf.python.")

    def _real(self) -> Any:
        """Returns TensorFlow's module of this name."""
        if self._is_private():
            return importlib.import_module(self.__name__)
        v1: Any = importlib.import_module("tensorflow").compat.v1
        return functools.reduce(getattr, self._path.split(".")[1:], v1)

    def _own(self, name: str) -> Any:
        """Returns a name of TensorFlow's module."""
        real = self._real()
        if self._is_private() and not hasattr(real, name):
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(real, name)


@functools.cache
def _overlay(path: str) -> _Overlay:
    return _Overlay(path)


def _table(path: str) -> types.ModuleType:
    return old_module(path, _API)


def _is_overlaid(path: str) -> bool:
    """Returns True if the table has a name, or names below it."""
    return is_old_module(path) or row_of(path) is not None


def _is_changed(path: str) -> bool:
    """Returns True for a public name of TensorFlow that has a row, or a package of such names."""
    has_rows = path in TABLE or is_old_module(path)
    return path in CHANGED_PACKAGES or (has_rows and _package(path) in CHANGED_PACKAGES)


def _changed(path: str) -> Any:
    """Returns what programs of TensorFlow 1 find in the place of a public name of TensorFlow."""
    if path in CHANGED_PACKAGES:
        return _overlay(path)
    if is_old_module(path):
        return _table(path)
    return getattr(_table(_package(path)), path.rpartition(".")[2])


def _keras() -> Any:
    """Returns Keras, whose layers have their old method."""
    keras: Any = importlib.import_module("tensorflow").compat.v1.keras
    layers: Any = importlib.import_module("replicate.compat.old_tensorflow.keras_layers")
    layers.give_apply(keras)
    return keras


_MODULES: Mapping[str, Callable[[], Any]] = types.MappingProxyType(
    {
        "keras": _keras,
        "layers": lambda: importlib.import_module("replicate.compat.layers"),
        "python": lambda: _overlay("tf.python"),
    }
)
"""Modules in the place of TensorFlow's."""


def _package(path: str) -> str:
    return path.rpartition(".")[0]


@functools.cache
def tensorflow1() -> TensorFlow1:
    """Returns the view, always the same one."""
    return TensorFlow1()


@functools.cache
def view_builtins() -> dict[str, Any]:
    """Returns the builtins of modules that see TensorFlow 1."""
    return {
        **vars(builtins),
        "__import__": _import,
        "open": open_file,
        OLD_ATTRIBUTE: old_attribute,
    }


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002  # The names of __import__.
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Imports a module as the builtin `__import__` does, and old modules of TensorFlow.

    NumPy and some modules of Python have the names that they lost.
    """
    if not level and globals is not None and MARK in globals:
        level = _implicit_level(name, globals)
    root, _, rest = name.partition(".")
    if not level and root in LOST_FROM:
        view = view_of(name)
        if view is not None:
            return view if not fromlist else _with_parts(_walk(view, name.split(".")[1:]), fromlist)
    if root == _SLIM and not level:
        _repair_slim()
    if level or root != "tensorflow":
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    importlib.import_module("tensorflow")
    module = _module(rest) if rest else tensorflow1()
    return _with_parts(module, fromlist) if fromlist else tensorflow1()


def _implicit_level(name: str, names: Mapping[str, object]) -> int:
    """Returns 1 for a module beside one of Python 2, which finds it first; else 0."""
    package = names.get("__package__")
    beside = f"{package}.{name.partition('.')[0]}"
    return int(bool(package) and importlib.util.find_spec(beside) is not None)


def _with_parts(module: Any, names: Sequence[str]) -> Any:
    """Returns a module after its submodules of these names were loaded.

    The import statement reports any other name that is not there.
    """
    for each in names:
        if each != "*" and not hasattr(module, each):
            _try_import(f"{module.__name__}.{each}")
    return module


def _repair_slim() -> None:
    """Makes tf-slim work on current TensorFlow; the import statement reports a missing one."""
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("replicate.compat.contrib.repaired_slim.loading").slim()


def _module(path: str) -> Any:
    """Returns the module "tensorflow." + path of the view, or the real one of that name."""
    if path.startswith("python.estimator"):
        return _walk(old_module(PRIVATE, _API), path.split(".")[2:])
    if path.startswith("python.") and not _is_overlaid(f"tf.{path}"):
        return importlib.import_module(f"tensorflow.{path}")
    with contextlib.suppress(ModuleNotFoundError):
        return _walk(tensorflow1(), path.split("."))
    row = row_of(f"tf.{path}")
    if row is not None:
        return absent(f"tf.{path}", row.difference)
    return importlib.import_module(f"tensorflow.{path}")


def _walk(module: Any, names: Sequence[str]) -> Any:
    for name in names:
        missing = not hasattr(module, name)
        module = (
            importlib.import_module(f"{module.__name__}.{name}")
            if missing
            else getattr(module, name)
        )
    return module


def _try_import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise


class ViewLoader(importlib.machinery.SourceFileLoader):
    """Loader of modules that see TensorFlow 1.

    Their compiled code differs from Python's, and is kept in files of other names.
    """

    def __init__(self, fullname: str, path: str, python2: bool = False) -> None:
        """Keeps name and file; python2 is True for a module of a program of Python 2."""
        super().__init__(fullname, path)
        self._python2 = python2

    def source_to_code(  # type: ignore[override]  # As SourceFileLoader has it.
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> types.CodeType:
        """Compiles the source of a module."""
        del _optimize
        return compiled(bytes(data), os.fspath(path), self._python2)

    def get_data(self, path: str) -> bytes:
        """Reads a source, or compiled code."""
        return super().get_data(self._cache_of(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Writes compiled code."""
        super().set_data(self._cache_of(path), data, _mode=_mode)

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module with the builtins of the view."""
        vars(module)["__builtins__"] = view_builtins()
        super().exec_module(module)

    def _cache_of(self, path: str) -> str:
        """Returns the file of a module's compiled code in place of Python's; sources stay."""
        start, ending = os.path.splitext(path)
        form = f"{FORMAT}{int(self._python2)}{int(is_installed())}"
        return f"{start}.tensorflow1-{form}{ending}" if ending == ".pyc" else path
