"""How far values on several towers are from those on one.

Owns what counts as equal: rounding is told in numbers, NaN and infinity equal themselves, and a
value is small or large beside the others of its kind. Which values are compared, and what is made
of it, is the business of `check.py`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array or scalar of any type."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far one value on N towers is from that on one tower.

    Attributes:
      name: "loss", "gradient of <variable>" or the name of a variable.
      absolute: Largest absolute difference of an element. Elements that are NaN in both, or the
        same infinity, are equal; to all others these differ infinitely.
      relative: The same divided by the largest absolute value of its kind on one tower. The
        gradients are a kind, the trainable variables are one, and so are all other variables that
        share the last part of their names, such as the slots of one optimizer: values that cancel
        to nearly zero are nothing but rounding, of the size of the others.
      only_nan: "NaN only on <count> tower(s)" if elements are NaN there and not in the other
        model; otherwise empty.
    """

    name: str
    absolute: float
    relative: float
    only_nan: str = ""

    def line(self, width: int) -> str:
        """Returns a line of a report.

        Args:
          width: Of the column of the names.
        """
        numbers = f"{self.absolute:8.1e}  {self.relative:8.1e}"
        return f"{self.name:{width}}  {numbers}  {self.only_nan}".rstrip()


def differences(
    one: Mapping[str, Array], many: Mapping[str, Array], kind: Callable[[str], str], count: int
) -> tuple[Difference, ...]:
    """Compares the values that both have, each relative to the largest of its kind in `one`.

    Args:
      one: Values on one tower, by name.
      many: Values on several towers.
      kind: Tells the kind of a name.
      count: How many towers are several.
    """
    pairs = {name: (_wide(one[name]), _wide(many[name])) for name in one if name in many}
    largest: dict[str, float] = {}
    for name, (value, _) in pairs.items():
        largest[kind(name)] = max(largest.get(kind(name), 0.0), _size(value))
    found = []
    for name, (a, b) in pairs.items():
        absolute = _distance(a, b)
        relative = _ratio(absolute, largest[kind(name)])
        found.append(Difference(name, absolute, relative, _only_nan(a, b, count)))
    return tuple(found)


def _ratio(absolute: float, scale: float) -> float:
    if absolute in (0.0, np.inf):
        return absolute
    return absolute / scale if scale else np.inf


def _wide(value: Array) -> Array:
    """Returns a value as an array of float64 or complex128, or of objects for strings."""
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        return value.astype(object)
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


def _size(value: Array) -> float:
    """Returns the largest absolute value of those that are finite; 0 for strings."""
    if value.dtype == object:
        return 0.0
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def _distance(one: Array, many: Array) -> float:
    """Returns the largest absolute difference: infinite if strings are not equal."""
    if one.dtype == object:
        return 0.0 if np.array_equal(one, many) else np.inf
    differ = (one != many) & ~(np.isnan(one) & np.isnan(many))
    difference = np.abs(one[differ] - many[differ]).max(initial=0.0)
    return float(difference) if np.isfinite(difference) else np.inf


def _only_nan(one: Array, many: Array, count: int) -> str:
    """Says which of two models has NaN where the other has none."""
    if one.dtype == object:
        return ""
    nan = (np.isnan(one), np.isnan(many))
    found = [
        f"NaN only on {towers_of(towers)}"
        for towers, here, there in ((1, *nan), (count, *reversed(nan)))
        if np.any(here & ~there)
    ]
    return ", ".join(found)


def towers_of(count: int) -> str:
    """Returns a number of towers in words."""
    return f"{count} tower" if count == 1 else f"{count} towers"
