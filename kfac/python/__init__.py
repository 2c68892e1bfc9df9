"""kfac.python of tensorflow/kfac: the old paths of modules, such as `kfac.python.ops.optimizer`.

A module has one object under its old and its new path. What is no longer there says what to use.
"""

import sys
import types

from kfac.old_programs.look_ups import found_at
from kfac.old_programs.table import MOVED


def _package(path: str) -> types.ModuleType:
    """Returns the module of an old path, made where there is none: a package of other modules."""
    if path in sys.modules:
        return sys.modules[path]
    module = sys.modules[path] = types.ModuleType(path)
    module.__path__ = []
    owner, _, name = path.rpartition(".")
    setattr(_package(owner), name, module)
    return module


def _add_old_paths() -> None:
    """Makes all old paths importable."""
    for place, modules in MOVED.items():
        if not place.startswith(__name__):
            continue
        for name, new in modules.items():
            module = sys.modules[f"{place}.{name}"] = found_at(new)
            if _package(place) is not module:
                setattr(_package(place), name, module)


_add_old_paths()
