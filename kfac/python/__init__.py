"""kfac.python of tensorflow/kfac: the old paths of modules, such as `kfac.python.ops.optimizer`.

A module has one object under its old and its new path. What is no longer there says what to use.
"""

import sys
import types
from typing import Any

from kfac.moved_names import OLD_MODULES, found_at


def _package(path: str) -> Any:
    """Returns the module of an old path, made where there is none: a package of other modules."""
    module = sys.modules.setdefault(f"{__name__}.{path}", types.ModuleType(f"{__name__}.{path}"))
    vars(module).setdefault("__path__", [])
    return module


def _add_old_paths() -> None:
    """Makes all old paths importable."""
    for path, new in OLD_MODULES.items():
        owner, _, name = path.rpartition(".")
        module = found_at(new)
        sys.modules[f"{__name__}.{path}"] = module
        parts = owner.split(".") if owner else []
        place: Any = sys.modules[__name__]
        for end, part in enumerate(parts, start=1):
            inner = _package(".".join(parts[:end]))
            if part not in vars(place):
                setattr(place, part, inner)
            place = inner
        if place is not module:
            setattr(place, name, module)


_add_old_paths()
