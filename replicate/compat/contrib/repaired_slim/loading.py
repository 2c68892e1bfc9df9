"""The import of tf-slim, and its repair.

tf-slim 1.1 uses private names of TensorFlow that moved, private modules of layers, and its
`batch_norm` needs layers that are gone. Here each module of tf-slim gets the public name in the
place of a moved one, its layers are made of `replicate.compat.layers`, and its layers and networks
get the `batch_norm` of this folder. Nothing else of tf-slim changes, and nothing of TensorFlow.
"""

import __future__

import functools
import importlib
import pkgutil
import types
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate.compat import layers

v1 = tf.compat.v1

_SLIM = "tf_slim"
_WITH_BATCH_NORM = (_SLIM, f"{_SLIM}.layers", f"{_SLIM}.layers.layers")
_OF_LAYERS = f"{_SLIM}.layers.layers"
_LAYERS = tuple(f"{kind}_layers" for kind in ("convolutional", "core", "normalization", "pooling"))
_FUTURE = frozenset(__future__.all_feature_names)
_MOVED: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "framework.ops": ("IndexedSlices", "Tensor"),
        "ops.array_ops": ("stack", "unstack"),
        "ops.control_flow_ops": ("Assert", "case", "cond", "while_loop"),
    }
)


class _Completed(types.ModuleType):
    """A module of TensorFlow with the names that it lost."""

    def __init__(self, module: types.ModuleType, names: Mapping[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def slim() -> Any:
    """Imports tf-slim and repairs it.

    Returns:
      The package `tf_slim`.

    Raises:
      ModuleNotFoundError: tf-slim is not installed.
    """
    package = importlib.import_module(_SLIM)
    _repair()
    return package


def name_of_slim(name: str, modules: Iterable[str], package: str) -> Any:
    """Finds a name of a package of tf.contrib in tf-slim.

    Args:
      name: Name of a function, a class or a module. Modules of others, which tf-slim imports, are
        left out.
      modules: Modules of tf-slim where it may be, in this order: "layers.layers", "" for `tf_slim`.
      package: Package that is asked for the name, for the error.

    Raises:
      AttributeError: No module has it.
      ModuleNotFoundError: tf-slim is not installed.
    """
    if not name.startswith("__"):
        slim()
        for module in modules:
            found = importlib.import_module(f"{_SLIM}.{module}".rstrip("."))
            value = getattr(found, name, None)
            if value is not None and not _is_foreign_module(value):
                return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def names_of_slim(modules: Iterable[str]) -> set[str]:
    """Returns the public names of modules of tf-slim, none if it is not installed."""
    try:
        slim()
    except ModuleNotFoundError:
        return set()
    found = [importlib.import_module(f"{_SLIM}.{module}".rstrip(".")) for module in modules]
    return {
        name
        for module in found
        for name, value in vars(module).items()
        if not (name.startswith("_") or _is_foreign_module(value) or name in _FUTURE)
    }


def _is_foreign_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not value.__name__.startswith(_SLIM)


def undo() -> None:
    """Takes the repair back; does nothing if tf-slim was not repaired."""
    while _changes:
        module, name, earlier = _changes.pop()
        setattr(module, name, earlier)
    _repair.cache_clear()


_changes: list[tuple[types.ModuleType, str, Any]] = []


@functools.cache
def _repair() -> None:
    from replicate.compat.contrib.repaired_slim.batch_norm import batch_norm  # noqa: PLC0415

    package = importlib.import_module(_SLIM)
    for found in pkgutil.walk_packages(package.__path__, f"{_SLIM}."):
        if not found.name.endswith(("_test", "test_utils")):
            _complete(importlib.import_module(found.name))
    for name in _LAYERS:
        _change(importlib.import_module(_OF_LAYERS), name, layers)
    for name in _WITH_BATCH_NORM:
        _change(importlib.import_module(name), "batch_norm", batch_norm)


def _change(module: types.ModuleType, name: str, value: Any) -> None:
    _changes.append((module, name, getattr(module, name)))
    setattr(module, name, value)


def _complete(module: types.ModuleType) -> None:
    """Gives a module of tf-slim the names that its modules of TensorFlow lost."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.ModuleType):
            lost = _names_gone_from(value)
            if lost:
                _change(module, name, _Completed(value, lost))


def _names_gone_from(module: types.ModuleType) -> dict[str, Any]:
    place = module.__name__.removeprefix("tensorflow.python.")
    lost = {name: getattr(v1, name) for name in _MOVED.get(place, ()) if not hasattr(module, name)}
    if place == "ops.variable_scope" and not hasattr(module, "variable"):
        lost["variable"] = v1.Variable
    return lost
