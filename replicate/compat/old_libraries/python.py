"""Functions of Python's own library that are gone, or that took more than they take today."""

import functools
import html
import importlib.machinery
import importlib.util
import inspect
import math
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple


class ArgSpec(NamedTuple):
    """Result of `inspect.getargspec`."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(func: Callable[..., Any]) -> ArgSpec:
    """Returns names and defaults of a function's arguments, as Python did until 3.10.

    Raises:
      ValueError: It has arguments that only names can give.
    """
    found = inspect.getfullargspec(func)
    if found.kwonlyargs:
        raise ValueError(
            f"inspect.getargspec: {func!r} has keyword-only arguments {found.kwonlyargs}. Use "
            "inspect.signature."
        )
    return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)


def gcd(a: int, b: int) -> int:
    """Returns the greatest common divisor of two whole numbers."""
    return math.gcd(a, b)


escape = functools.partial(html.escape, quote=False)
"""`cgi.escape`."""


def sample(population: Any, k: int, **options: Any) -> list[Any]:
    """Returns k different elements; a set is taken in its own order."""
    is_sequence = hasattr(population, "__getitem__") and not isinstance(population, dict)
    return random.sample(population if is_sequence else list(population), int(k), **options)


def randint(a: Any, b: Any) -> int:
    """Returns a random whole number from a to b, both included, also for whole floats."""
    return random.randint(_whole(a), _whole(b))  # noqa: S311


def randrange(start: Any, stop: Any = None, step: Any = 1) -> int:
    """Returns a random element of a range, also for whole floats."""
    last = None if stop is None else _whole(stop)
    return random.randrange(_whole(start), last, _whole(step))  # noqa: S311


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shuffle(x: Any, random: Callable[[], float] | None = None) -> None:
    """Shuffles a list in place, by a function of random numbers in [0, 1) if one is given."""
    if random is None:
        _shuffle(x)
        return
    for i in reversed(range(1, len(x))):
        j = int(random() * (i + 1))
        x[i], x[j] = x[j], x[i]


_shuffle = random.shuffle


def load_source(name: str, pathname: str, file: Any = None) -> types.ModuleType:
    """Runs a file as a module of a name, `imp.load_source`."""
    del file
    loader = importlib.machinery.SourceFileLoader(name, pathname)
    spec = importlib.util.spec_from_file_location(name, pathname, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"{pathname} is no module.", name=name, path=pathname)
    known = sys.modules.get(name)
    module = importlib.util.module_from_spec(spec) if known is None else known
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def new_module(name: str) -> types.ModuleType:
    """Returns an empty module, `imp.new_module`."""
    return types.ModuleType(name)


def find_module(name: str, path: Any = None) -> tuple[Any, str, tuple[str, str, int]]:
    """Returns (open file, path, (ending, mode, kind)) of a module, `imp.find_module`.

    Raises:
      ImportError: There is none.
    """
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {name!r}.", name=name)
    if spec.submodule_search_locations:
        return None, os.path.dirname(spec.origin), ("", "", 5)
    return open(spec.origin, encoding="utf-8"), spec.origin, (".py", "r", 1)


def load_module(name: str, file: Any, pathname: str, description: Any) -> types.ModuleType:
    """Runs what `find_module` found, `imp.load_module`."""
    is_package = description[2] == 5
    path = os.path.join(pathname, "__init__.py") if is_package else pathname
    return load_source(name, path, file)


def what(file: Any, h: bytes | None = None) -> str | None:
    """Returns the kind of an image by its first bytes, `imghdr.what`; None for another file."""
    if h is None:
        if hasattr(file, "read"):
            start = file.tell()
            head = file.read(32)
            file.seek(start)
        else:
            with open(file, "rb") as opened:
                head = opened.read(32)
    else:
        head = h
    kinds = {
        "jpeg": head[6:10] in (b"JFIF", b"Exif") or head[:4] == b"\xff\xd8\xff\xdb",
        "png": head.startswith(b"\x89PNG\r\n\x1a\n"),
        "gif": head[:6] in (b"GIF87a", b"GIF89a"),
        "tiff": head[:2] in (b"MM", b"II"),
        "bmp": head.startswith(b"BM"),
        "webp": head.startswith(b"RIFF") and head[8:12] == b"WEBP",
    }
    return next((kind for kind, is_so in kinds.items() if is_so), None)
