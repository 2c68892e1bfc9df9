"""The finder of old modules: what Python's import system asks for names that TensorFlow lost.

It stands first in `sys.meta_path` while `install()` is in force. It makes the old modules, gives
the view of TensorFlow 1 to modules that are to see it, and tells when TensorFlow was loaded, or one
of the copies of its API that it makes on demand.
"""

import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from replicate.compat.old_modules import is_old_module, old_module
from replicate.compat.table import ESTIMATOR, PRIVATE
from replicate.compat.tf1_view import ViewLoader

_TENSORFLOW = "tensorflow"
_API = re.compile(r"tensorflow(\..+)?\.compat\.v[12]")
_OLD = re.compile(r"tensorflow(?P<copy>(\.compat\.v[12])?)\.estimator(?P<rest>(\..+)?)")
_PACKAGE = PRIVATE.partition(".")[0]


def is_api(name: str) -> bool:
    """Returns True for the name of a module that is an API of TensorFlow, one of its copies."""
    return name == _TENSORFLOW or _API.fullmatch(name) is not None


def api_of(name: str) -> str:
    """Returns the part of `replicate` whose defaults fit an API of TensorFlow."""
    return "replicate.v1" if name.endswith(".v1") else "replicate"


class OldModuleFinder(importlib.abc.MetaPathFinder):
    """Finds old modules, and takes part in the import of TensorFlow and of programs.

    Attributes:
      gives_estimator: True to find tensorflow_estimator and tensorflow.estimator.
      python2: True if modules that see TensorFlow 1 are of Python 2.
      loading: Makes the context in which TensorFlow itself is loaded.
    """

    def __init__(
        self,
        sees_tensorflow1: Callable[[str, str], bool],
        on_api: Callable[[str], None],
    ) -> None:
        """Keeps the two functions.

        Args:
          sees_tensorflow1: Returns True if the module of a name, in a file, sees TensorFlow 1.
          on_api: Called with the name of each API of TensorFlow after it was loaded.
        """
        self.gives_estimator = self.python2 = False
        self.loading: Callable[[], AbstractContextManager[None]] = nullcontext
        self._sees_tensorflow1 = sees_tensorflow1
        self._on_api = on_api

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds an old module, or what the other finders find, with another loader."""
        old = _old_module(fullname) if self.gives_estimator else None
        if old is not None:
            return importlib.machinery.ModuleSpec(fullname, _OldModuleLoader(old), is_package=True)
        spec = self._found_by_others(fullname, path, target)
        if spec is None or spec.loader is None or spec.origin is None:
            return spec
        if is_api(fullname):
            loading = self.loading if fullname == _TENSORFLOW else nullcontext
            spec.loader = _ReportingLoader(spec.loader, self._on_api, loading)
        elif type(spec.loader) is importlib.machinery.SourceFileLoader and self._sees_tensorflow1(
            fullname, spec.origin
        ):
            spec.loader = ViewLoader(fullname, spec.loader.path, self.python2)
        return spec

    def _found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if spec is not None:
                return spec
        return None


def _old_module(name: str) -> types.ModuleType | None:
    old = _OLD.fullmatch(name)
    if old is not None:
        path = f"{ESTIMATOR}{old['rest']}"
        api = api_of(old["copy"])
    elif name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
        path, api = name, "replicate.v1"
    else:
        return None
    return old_module(path, api) if is_old_module(path) else None


class _OldModuleLoader(importlib.abc.Loader):
    """Loader of an old module, which exists already."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the names of the module are looked up when they are used."""


class _ReportingLoader(importlib.abc.Loader):
    """Loader of an API of TensorFlow, which tells when it is loaded."""

    def __init__(
        self,
        loader: importlib.abc.Loader,
        on_api: Callable[[str], None],
        loading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._loader = loader
        self._on_api = on_api
        self._loading = loading

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        with self._loading():
            self._loader.exec_module(module)
        if spec is not None:  # From here on the module shows its own loader.
            module.__loader__ = spec.loader = self._loader
        self._on_api(module.__name__)
