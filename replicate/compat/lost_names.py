"""Names that Python and NumPy lost since programs of TensorFlow 1 were written.

Such programs write `np.float`, `collections.Mapping` and `time.clock()`. Their modules see NumPy
and these modules of Python with the old names added. A name that still exists is never replaced.
"""

import collections.abc
import functools
import html
import importlib
import inspect
import math
import time
import types
from collections.abc import Callable, Mapping
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


_ABSTRACT = {
    name: getattr(collections.abc, name)
    for name in collections.abc.__all__
    if not hasattr(collections, name)
}
_PYTHON: Mapping[str, Mapping[str, Any]] = types.MappingProxyType(
    {
        "cgi": {"escape": functools.partial(html.escape, quote=False)},
        "collections": _ABSTRACT,
        "fractions": {"gcd": math.gcd},
        "inspect": {"getargspec": getargspec},
        "time": {"clock": time.process_time},
    }
)
"""Module → value by lost name."""

_NUMPY: Mapping[str, Any] = types.MappingProxyType(
    {
        "bool": bool,
        "complex": complex,
        "float": float,
        "int": int,
        "long": int,
        "object": object,
        "str": str,
        "unicode": str,
        "asscalar": lambda a: a.item(),
        "Inf": math.inf,
        "Infinity": math.inf,
        "NINF": -math.inf,
        "NZERO": -0.0,
        "NaN": math.nan,
        "PINF": math.inf,
        "PZERO": 0.0,
        "infty": math.inf,
    }
)
"""Lost name of NumPy → value."""

_RENAMED: Mapping[str, str] = types.MappingProxyType(
    {
        "ComplexWarning": "exceptions.ComplexWarning",
        "RankWarning": "exceptions.RankWarning",
        "VisibleDeprecationWarning": "exceptions.VisibleDeprecationWarning",
        "alltrue": "all",
        "bool8": "bool_",
        "cfloat": "complex128",
        "complex_": "complex128",
        "cumproduct": "cumprod",
        "float_": "float64",
        "in1d": "isin",
        "int0": "intp",
        "longcomplex": "clongdouble",
        "longfloat": "longdouble",
        "mat": "asmatrix",
        "object0": "object_",
        "product": "prod",
        "rank": "ndim",
        "round_": "round",
        "row_stack": "vstack",
        "singlecomplex": "complex64",
        "sometrue": "any",
        "string_": "bytes_",
        "trapz": "trapezoid",
        "typeDict": "sctypeDict",
        "uint0": "uintp",
        "unicode_": "str_",
    }
)
"""Lost name of NumPy → the name that it has now."""

LOST_FROM = frozenset({"numpy", *_PYTHON})
"""Modules that lost names."""


class ModuleWithLostNames(types.ModuleType):
    """A module and the names that it lost. What a program sets is set in the module itself."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        names = {name: value for name, value in vars(module).items() if name != "__getattr__"}
        vars(self).update(names, _real=module)

    def __getattr__(self, name: str) -> Any:
        real = vars(self)["_real"]
        # Asked for a lost name, NumPy warns and then fails.
        value = None if name in vars(real) else _lost(real, name)
        if value is None:
            return getattr(real, name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value
        setattr(vars(self)["_real"], name, value)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_real"])


@functools.cache
def with_lost_names(name: str) -> ModuleWithLostNames:
    """Returns a module with the names that it lost, always the same one."""
    return ModuleWithLostNames(importlib.import_module(name))


def _lost(module: types.ModuleType, name: str) -> Any:
    """Returns the value of a lost name, or None if there never was such a name."""
    if module.__name__ != "numpy":
        return _PYTHON[module.__name__].get(name)
    if name in _RENAMED:
        return functools.reduce(getattr, _RENAMED[name].split("."), module)
    return _NUMPY.get(name)
