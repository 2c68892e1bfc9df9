"""Modules as programs of TensorFlow 1 see them: with the names that they lost.

Such programs write `np.float`, `collections.Mapping`, `scipy.misc.imread` and `yaml.load(text)`.
Their own modules see views of these modules; all others see the modules as they are. A name that
still exists is replaced only if it took more then (`CHANGED` in the table).
"""

import functools
import importlib
import types
from typing import Any

from replicate.compat.table.libraries import CHANGED, LOST, modules_of

LOST_FROM = modules_of([*LOST, *CHANGED])
"""Modules that lost names, and the packages above them."""

_ROOTS = frozenset(name for name in LOST_FROM if "." not in name)
_COPIED = "numpy"
"""The module whose names are copied, for speed; those of others are looked up when used."""


class ModuleWithLostNames(types.ModuleType):
    """A module and the names that it lost. What a program sets is set in the module itself."""

    def __init__(self, name: str, module: types.ModuleType | None) -> None:
        """Makes the view of a module, None if there is no such module any more."""
        super().__init__(name, module.__doc__ if module is not None else None)
        vars(self).update(_real=module)
        if name == _COPIED:
            names = vars(module).items()
            vars(self).update({k: v for k, v in names if not _is_ours(name, k)})
        else:
            for each in ("__doc__", "__loader__", "__spec__", "__package__"):
                vars(self).pop(each, None)

    def __getattr__(self, name: str) -> Any:
        home, real = vars(self)["__name__"], vars(self)["_real"]
        path = f"{home}.{name}"
        if path in CHANGED and hasattr(real, name):
            value = _found(CHANGED[path])
        elif path in LOST_FROM and _is_module(real, name, path):
            value = with_lost_names(path)
        elif real is not None and (name in vars(real) or name.startswith("__")):
            return _all_names(real) if name == "__all__" else getattr(real, name)
        elif path in LOST:  # Asked for a lost name, NumPy warns and then fails.
            value = _found(LOST[path])
        elif f"{home}.*" in LOST:
            return getattr(importlib.import_module(LOST[f"{home}.*"]), name)
        elif real is None:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        else:
            return getattr(real, name)
        if home == _COPIED:
            vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        real = vars(self)["_real"]
        if real is None or vars(self)["__name__"] == _COPIED:
            vars(self)[name] = value
        if real is not None:
            setattr(real, name, value)

    def __delattr__(self, name: str) -> None:
        vars(self).pop(name, None)
        real = vars(self)["_real"]
        if real is not None:
            delattr(real, name)

    def __dir__(self) -> list[str]:
        real = vars(self)["_real"]
        return dir(real) if real is not None else sorted(_lost_below(vars(self)["__name__"]))


@functools.cache
def with_lost_names(name: str) -> ModuleWithLostNames:
    """Returns a module with the names that it lost, always the same one."""
    return ModuleWithLostNames(name, _real_module(name))


def view_of(name: str) -> types.ModuleType | None:
    """Returns the view of a module, as `import name` gives it, or None if it lost no names.

    Raises:
      ModuleNotFoundError: It is not installed, and nothing takes its place.
    """
    root = name.partition(".")[0]
    if root not in _ROOTS:
        return None
    module = name
    while module not in LOST_FROM:
        module = module.rpartition(".")[0]
    if _real_module(module) is None and not (f"{module}.*" in LOST or _lost_below(module)):
        return None
    if module != name and _real_module(name) is None:
        importlib.import_module(name)  # It raises Python's own error.
    if _real_module(root) is None and not _stands_alone(root):
        importlib.import_module(root)
    return with_lost_names(root)


def _stands_alone(root: str) -> bool:
    """Returns True for a module of Python's own, whose names do not need it."""
    return root not in ("numpy", "scipy", "pandas", "sklearn", "yaml")


@functools.cache
def _real_module(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return None


def _is_module(real: types.ModuleType | None, name: str, path: str) -> bool:
    """Returns True if a name is that of a module, or was; False if it is something else now."""
    value = vars(real).get(name) if real is not None else None
    return isinstance(value, types.ModuleType) or (
        value is None and (f"{path}.*" in LOST or bool(_lost_below(path)))
    )


def _is_ours(home: str, name: str) -> bool:
    path = f"{home}.{name}"
    return name == "__getattr__" or path in CHANGED or path in LOST_FROM


@functools.cache
def _lost_below(path: str) -> frozenset[str]:
    start = f"{path}."
    names = (each[len(start) :] for each in [*LOST, *CHANGED] if each.startswith(start))
    return frozenset(name.partition(".")[0] for name in names)


def _all_names(real: types.ModuleType) -> list[str]:
    """Returns what an import of "*" gives."""
    found = getattr(real, "__all__", None)
    return [name for name in dir(real) if name[0] != "_"] if found is None else list(found)


def _found(path: str) -> Any:
    """Imports a dotted name, as far as it is a module, and reads the rest."""
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = _real_module(".".join(parts[:end]))
        if module is not None:
            return functools.reduce(getattr, parts[end:], module)
    raise ModuleNotFoundError(f"No module named {parts[0]!r}", name=parts[0])
