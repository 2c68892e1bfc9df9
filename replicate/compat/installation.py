"""install() and uninstall(): tf.estimator in TensorFlow, where TensorFlow no longer has it.

Owns all that `replicate.compat` changes in a process: attributes of TensorFlow's modules, entries
of `sys.modules`, and one finder in `sys.meta_path`. `uninstall()` takes back each of them.
"""

import importlib
import re
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

from replicate.compat.finder import OldModuleFinder, api_of, is_api
from replicate.compat.old_modules import OldModule, old_module
from replicate.compat.table import ESTIMATOR
from replicate.compat.tf1_view import ViewLoader

_NAME = "estimator"
_ABSENT = object()
_CHANGES = (
    "replicate.compat.contrib.repaired_slim.loading",
    "replicate.compat.old_tensorflow.keras_layers",
)
"""Modules that change other packages, and whose `undo` takes that back."""
_MODULES = re.compile(r"tensorflow_estimator(\..+)?|tensorflow(\.compat\.v[12])?\.estimator(\..+)?")

Owns: TypeAlias = Callable[[str, str], bool]
Loading: TypeAlias = Callable[[], AbstractContextManager[None]]


class _Installation:
    """Changes of this process that are in force, and their removal."""

    def __init__(self) -> None:
        self.packages: set[str] = set()
        self._owns: list[Owns] = []
        self._on_tensorflow: list[Callable[[], None]] = []
        self._apis: list[tuple[Any, Any]] = []
        self._modules: dict[str, types.ModuleType] = {}
        self._finder = OldModuleFinder(self._sees_tensorflow1, self._on_api)

    def add_finder(self) -> None:
        """Puts the finder before all others."""
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)

    def add_packages(self, packages: Iterable[str]) -> None:
        """Makes packages see TensorFlow 1; arguments and errors as for `install`."""
        if isinstance(packages, str):
            raise TypeError(
                f"install was called with packages={packages!r}: write packages=[{packages!r}]."
            )
        new = set(packages) - self.packages
        early = sorted(new & sys.modules.keys())
        if early:
            raise ValueError(
                f"install was called with packages={early}, which were imported before: call it "
                "before the first import of them."
            )
        self.packages |= new

    def add_program(self, owns: Owns, on_tensorflow: Callable[[], None], loading: Loading) -> None:
        """Makes a program see TensorFlow 1, as `install_program`."""
        self._finder.loading = loading
        self._owns.append(owns)
        self._on_tensorflow.append(on_tensorflow)
        if "tensorflow" in sys.modules:
            self._on_api("tensorflow")

    def translate(self) -> None:
        """Makes the finder translate modules of Python 2."""
        self._finder.python2 = True

    def add_estimator(self) -> None:
        """Gives tf.estimator to all APIs of TensorFlow that are loaded, and to later ones."""
        if not self._finder.gives_estimator:
            self._modules = {name: sys.modules[name] for name in sys.modules if _is_old(name)}
            for name in self._modules:
                del sys.modules[name]
        self._finder.gives_estimator = True
        for name in [name for name in sys.modules if is_api(name)]:
            self._patch(name)

    def remove(self) -> None:
        """Takes all changes back."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for module, earlier in reversed(self._apis):
            if earlier is _ABSENT:
                delattr(module, _NAME)
            else:
                setattr(module, _NAME, earlier)
        for name, module in list(sys.modules.items()):
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            if isinstance(module, OldModule) or isinstance(loader, ViewLoader):
                del sys.modules[name]
        sys.modules.update(self._modules)
        for change in _CHANGES:
            if change in sys.modules:
                sys.modules[change].undo()

    def _sees_tensorflow1(self, name: str, origin: str) -> bool:
        in_package = name.partition(".")[0] in self.packages
        return in_package or any(owns(name, origin) for owns in self._owns)

    def _on_api(self, name: str) -> None:
        if self._finder.gives_estimator:
            self._patch(name)
        if name == "tensorflow":
            while self._on_tensorflow:
                self._on_tensorflow.pop()()

    def _patch(self, name: str) -> None:
        module = sys.modules[name]
        estimator = old_module(ESTIMATOR, api_of(name))
        earlier = vars(module).get(_NAME, _ABSENT)
        if earlier is not estimator:
            self._apis.append((module, earlier))
            setattr(module, _NAME, estimator)


_in_force: list[_Installation] = []


def install(packages: Iterable[str] = (), *, replace: bool = False) -> None:
    """Adds to TensorFlow what it lost in version 2.16: tf.estimator, for libraries that import it.

    Afterwards `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator` and the module
    `tensorflow_estimator` are there, also for modules that imported TensorFlow before. Nothing else
    changes. A second call adds what the first one did not. Where TensorFlow has tf.estimator, as in
    version 2.15, it stays.

    Args:
      packages: Names of packages that see TensorFlow 1, with tf.contrib: their `import tensorflow
        as tf` gives `tf.compat.v1`, with `tf.estimator` and `tf.contrib`.
      replace: True to put replicate's tf.estimator in the place of TensorFlow's own.

    Raises:
      ValueError: A package was imported before.
      TypeError: `packages` is one string.
    """
    installation = _installation()
    installation.add_packages(packages)
    tensorflow = importlib.import_module("tensorflow")
    installation.add_finder()
    if replace or not hasattr(tensorflow, _NAME):
        installation.add_estimator()


def install_program(
    owns: Owns, on_tensorflow: Callable[[], None], loading: Loading = nullcontext
) -> None:
    """Makes a program see TensorFlow 1, and loads no TensorFlow.

    Args:
      owns: Returns True if the module of a name, in a file, belongs to the program.
      on_tensorflow: Called once, after TensorFlow was loaded, or at once if it is.
      loading: Makes the context in which the program's import of TensorFlow loads it.
    """
    installation = _installation()
    installation.add_finder()
    installation.add_program(owns, on_tensorflow, loading)


def translate_python2() -> None:
    """Translates the modules of programs that are loaded from here on, as those of Python 2."""
    _installation().translate()


def uninstall() -> None:
    """Takes back all that `install` did; does nothing if it was not called.

    Packages that saw TensorFlow 1 leave `sys.modules`, so that the next import of them sees the
    real one.
    """
    while _in_force:
        _in_force.pop().remove()


def _installation() -> _Installation:
    if not _in_force:
        _in_force.append(_Installation())
    return _in_force[0]


def _is_old(name: str) -> bool:
    return _MODULES.fullmatch(name) is not None
