"""Attributes and methods that objects of Python and its libraries lost.

Modules of programs read the attributes of `NAMES` by `old_attribute`: `image.tostring()` becomes
`old_attribute(image, "tostring")()`. An attribute that the object has is that one.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any

from replicate.compat.old_libraries import frames

_Attribute = Callable[[Any], Any]


def _method(name: str) -> _Attribute:
    """Returns what reads an attribute by the name that it has now."""
    return lambda value: getattr(value, name)


def _views(name: str) -> _Attribute:
    """Returns `iteritems` and its kin: a method that iterates over a view."""
    return lambda value: lambda: iter(getattr(value, name)())


def _message(error: BaseException) -> str:
    return str(error.args[0]) if len(error.args) == 1 else ""


def _itemset(array: Any) -> Callable[..., None]:
    def itemset(*args: Any) -> None:
        *place, value = args
        index = tuple(place[0]) if place and isinstance(place[0], tuple) else tuple(place)
        array.flat[index[0] if len(index) == 1 else _flat_index(array, index)] = value

    return itemset


def _flat_index(array: Any, index: tuple[int, ...]) -> int:
    flat = 0
    for size, each in zip(array.shape, index, strict=False):
        flat = flat * size + each
    return flat


_DICT: Mapping[str, _Attribute] = types.MappingProxyType(
    {
        "has_key": lambda value: value.__contains__,
        "iteritems": _views("items"),
        "iterkeys": _views("keys"),
        "itervalues": _views("values"),
        "viewitems": _method("items"),
        "viewkeys": _method("keys"),
        "viewvalues": _method("values"),
    }
)
_FRAME: Mapping[str, _Attribute] = types.MappingProxyType(
    {
        "append": frames.append,
        "as_matrix": frames.as_matrix,
        "get_value": frames.get_value,
        "iteritems": _method("items"),
        "ix": frames.by_label_or_position,
        "set_value": frames.set_value,
        "sort": frames.sort,
    }
)
_LOST: Mapping[tuple[str, str], Mapping[str, _Attribute]] = types.MappingProxyType(
    {
        ("builtins", "dict"): _DICT,
        ("builtins", "mappingproxy"): _DICT,
        ("builtins", "str"): {"decode": lambda value: lambda *args, **kwargs: value},
        ("builtins", "BaseException"): {"message": _message},
        ("numpy", "ndarray"): {
            "itemset": _itemset,
            "newbyteorder": lambda a: lambda order="S": a.view(a.dtype.newbyteorder(order)),
            "ptp": lambda a: (
                lambda *args, **kwargs: a.max(*args, **kwargs) - a.min(*args, **kwargs)
            ),
            "tostring": _method("tobytes"),
        },
        ("numpy", "generic"): {"tostring": _method("tobytes")},
        ("array", "array"): {"fromstring": _method("frombytes"), "tostring": _method("tobytes")},
        ("threading", "Thread"): {"isAlive": _method("is_alive")},
        ("xml", "Element"): {
            "getchildren": lambda element: lambda: list(element),
            "getiterator": _method("iter"),
        },
        ("xml", "ElementTree"): {"getiterator": _method("iter")},
        ("pandas", "DataFrame"): _FRAME,
        ("pandas", "Series"): {**_FRAME, "order": _method("sort_values")},
    }
)
"""Attributes by the package and the name of a class."""

NAMES = frozenset(name for names in _LOST.values() for name in names)
"""Names of the lost attributes."""

OF_PANDAS = frozenset(("append", "sort"))
"""Those that other objects have often: they are looked for where a module mentions pandas."""

RENAMED: Mapping[str, str] = types.MappingProxyType(
    {"as_matrix": "to_numpy", "isAlive": "is_alive", "tostring": "tobytes"}
)
"""Methods that `replicate.migrate` calls by the name that they have now."""


def old_attribute(value: Any, name: str) -> Any:
    """Returns an attribute, or for one that was lost what takes its place.

    Raises:
      AttributeError: The object never had it.
    """
    try:
        return getattr(value, name)
    except AttributeError:
        for kind in type(value).__mro__:
            of_kind = _LOST.get((kind.__module__.partition(".")[0], kind.__name__), {})
            if name in of_kind:
                return of_kind[name](value)
        if name == "next" and hasattr(value, "__next__"):
            return value.__next__
        raise
