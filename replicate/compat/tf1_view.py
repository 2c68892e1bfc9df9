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
import re
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from replicate.compat.absent import absent, error_of_use, is_absent
from replicate.compat.lost_names import LOST_FROM, with_lost_names
from replicate.compat.old_modules import is_old_module, old_module
from replicate.compat.table import CONTRIB, ESTIMATOR, PRIVATE, names_below, row_of

VERSION = "1.15.5"
"""The version that programs find: the last TensorFlow 1."""

_API = "replicate.v1"
_LAYERS = "replicate.compat.layers"
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


class _Nn(types.ModuleType):
    """`tf.nn` as a program of TensorFlow 1 sees it: its rnn_cell is that of the table."""

    def __init__(self) -> None:
        super().__init__("tensorflow.nn")
        self.rnn_cell = old_module("tf.nn.rnn_cell", _API)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tensorflow").compat.v1.nn, name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module("tensorflow").compat.v1.nn)


class TensorFlow1(types.ModuleType):
    """TensorFlow as programs of TensorFlow 1 see it."""

    def __init__(self) -> None:
        super().__init__("tensorflow", "TensorFlow 1: tf.compat.v1, tf.estimator and tf.contrib.")
        self.__version__ = self.VERSION = VERSION
        self.compat = _Compat(self)
        self.estimator = old_module(ESTIMATOR, _API)
        self.contrib = old_module(CONTRIB, _API)
        self.examples = old_module("tf.examples", _API)
        self.nn = _Nn()

    def __getattr__(self, name: str) -> Any:
        real = importlib.import_module("tensorflow")
        if name == "python":
            return _overlay("tf.python")
        if name == "layers":
            return importlib.import_module(_LAYERS)
        if name.startswith("__"):
            return getattr(real, name)
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
    """A module below tensorflow.python, with the names of the table before its own ones."""

    def __init__(self, path: str) -> None:
        super().__init__(re.sub(r"^tf\.", "tensorflow.", path))
        self.__path__: list[str] = []
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # An import of "*" asks for it.
            return [each for each in dir(self) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        if _is_overlaid(path):
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

    def __dir__(self) -> list[str]:
        try:
            own = dir(importlib.import_module(self.__name__))
        except ModuleNotFoundError:
            own = []
        return sorted({*own, *names_below(self._path)})

    def _own(self, name: str) -> Any:
        """Returns a name of the real module."""
        real = importlib.import_module(self.__name__)
        if not hasattr(real, name):
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


@functools.cache
def tensorflow1() -> TensorFlow1:
    """Returns the view, always the same one."""
    return TensorFlow1()


@functools.cache
def view_builtins() -> dict[str, Any]:
    """Returns the builtins of modules that see TensorFlow 1."""
    return {**vars(builtins), "__import__": _import}


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
    root, _, rest = name.partition(".")
    if not level and root in LOST_FROM and not (rest and fromlist):
        builtins.__import__(name, globals, locals, fromlist or (), level)
        return with_lost_names(root)
    if root == _SLIM and not level:
        _repair_slim()
    if level or root != "tensorflow":
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    importlib.import_module("tensorflow")
    module = _module(rest) if rest else tensorflow1()
    if not fromlist:
        return tensorflow1()
    for each in fromlist:
        if each != "*" and not hasattr(module, each):
            # A submodule that is not yet loaded; the import statement reports any other name.
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
    """Loader of modules that see TensorFlow 1."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module with the builtins of the view."""
        vars(module)["__builtins__"] = view_builtins()
        super().exec_module(module)
