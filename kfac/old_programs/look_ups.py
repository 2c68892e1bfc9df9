"""Failed look-ups of names: old ones work, or the error says what replaces them.

The error is an AttributeError, or the ImportError of `from module import name`.
"""

import difflib
import dis
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from kfac.old_programs.table import GONE, MOVED


def found_at(path: str) -> Any:
    """Returns a module of this package, or what a module has, by its path."""
    owner, _, name = path.rpartition(".")
    place = importlib.import_module(owner)
    return vars(place)[name] if name in vars(place) else importlib.import_module(path)


def look_up_in_module(module: types.ModuleType) -> None:
    """Makes a module find its old names, and tell of those that are gone or misspelt.

    Its name is a place of the table. Its own `__getattr__`, if it has one, is asked for its public
    names.
    """
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")
    public = vars(module).get("__all__", ())
    gone, moved = GONE.get(module.__name__, {}), MOVED.get(module.__name__, {})

    def __getattr__(name: str) -> Any:  # noqa: N807
        if own and name in public:
            return own(name)
        if name in moved:
            return found_at(moved[name])
        text = f"module {module.__name__!r} has no attribute {name!r}"
        alike = [] if name.startswith("_") else difflib.get_close_matches(name, public, 1, 0.75)
        if name not in gone and not alike:
            raise AttributeError(text)
        imports = _imports(sys._getframe(1))  # Such an import drops an AttributeError's text.
        if imports:
            text = f"cannot import name {name!r} from {module.__name__!r}"
        if name in gone:
            text = _told(text, gone[name])
        else:
            text = f"{text}. Did you mean {module.__name__}.{alike[0]}?"
        raise ImportError(text, name=module.__name__) if imports else AttributeError(text)

    vars(module)["__getattr__"] = __getattr__


def look_up_in_objects(cls: type, place: str) -> None:
    """Makes a class have its old attributes, and its objects tell of those that are gone.

    `place` is its path, a place of the table.
    """
    gone = GONE[place]

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in gone:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(_told(text, gone[name]))
        # Fails again, with the ordinary message or with the error of a property.
        return object.__getattribute__(self, name)

    setattr(cls, "__getattr__", __getattr__)  # noqa: B010
    for name, path in MOVED.get(place, {}).items():
        setattr(cls, name, found_at(path))


def refuse_import(module: str) -> NoReturn:
    """Raises the ImportError of a package that tensorflow/kfac had, such as "kfac.examples"."""
    owner, _, name = module.rpartition(".")
    raise ImportError(_told(f"there is no module {module!r}", GONE[owner][name]), name=module)


def _told(text: str, replacement: str) -> str:
    return (
        f"{text}, which tensorflow/kfac had. Use {replacement}. "
        "See docs/howto/from_tensorflow_kfac.md."
    )


def _imports(frame: types.FrameType) -> bool:
    """Returns True if a frame is at `from module import name`."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
