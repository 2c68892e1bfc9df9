"""Differences between values on several towers and on one.

Owns the definition of a difference: NaN equals NaN, an infinity equals itself, and relative
differences are relative to the largest value of the same kind. `check.py` decides which values are
compared.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array or scalar of any type."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference of one value on N towers and on one tower.

    Attributes:
      name: "loss", "gradient of <variable>" or the name of a variable.
      absolute: Largest absolute difference of an element. Elements that are NaN in both models, or
        the same infinity in both, are equal. NaN or an infinity in one model only is an infinite
        difference.
      relative: Absolute difference ÷ largest absolute value of the same kind on one tower. The
        kinds are: gradients; trainable variables; other variables with the same last part of the
        name, such as the slots of one optimizer. So a value that is nearly zero because others
        cancel is compared by their size.
      only_nan: "NaN only on <count> tower(s)" if an element is NaN in that model only; otherwise
        empty.
    """

    name: str
    absolute: float
    relative: float
    only_nan: str = ""

    def line(self, width: int) -> str:
        """Returns a line of a report.

        Args:
          width: Width of the column of names, in characters.
        """
        numbers = f"{self.absolute:8.1e}  {self.relative:8.1e}"
        return f"{self.name:{width}}  {numbers}  {self.only_nan}".rstrip()


def differences(
    one: Mapping[str, Array], many: Mapping[str, Array], kind: Callable[[str], str], count: int
) -> tuple[Difference, ...]:
    """Compares the values that both models have, by name.

    Differences are relative to the largest value in `one` of a name's `kind`. `count` is the number
    of towers of `many`.
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
    """Returns the largest finite absolute value; 0 for strings."""
    if value.dtype == object:
        return 0.0
    return float(np.abs(value[np.isfinite(value)]).max(initial=0.0))


def _distance(one: Array, many: Array) -> float:
    """Returns the largest absolute difference. It is infinite for strings that differ."""
    if one.dtype == object:
        return 0.0 if np.array_equal(one, many) else np.inf
    differ = (one != many) & ~(np.isnan(one) & np.isnan(many))
    difference = np.abs(one[differ] - many[differ]).max(initial=0.0)
    return float(difference) if np.isfinite(difference) else np.inf


def _only_nan(one: Array, many: Array, count: int) -> str:
    """Names the models that have NaN in elements which are numbers in the other model."""
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
