"""Operators and functions that mean something else since Python 3."""

import math
import numbers
import operator
from typing import Any

import numpy as np


def cmp(x: Any, y: Any) -> int:
    """Returns -1, 0 or 1 if x is less than y, equal, or greater."""
    return int(x > y) - int(x < y)


def old_div(a: Any, b: Any) -> Any:
    """Returns a / b as Python 2 did: rounded down for two whole numbers.

    Arrays and tensors of whole numbers are rounded down, too, and objects with `__div__` divide by
    it.
    """
    if isinstance(a, numbers.Integral) and isinstance(b, numbers.Integral):
        return a // b
    if _is_array(a) or _is_array(b):
        if _is_whole(a) and _is_whole(b):
            return operator.floordiv(a, b)
        if (_is_array(a) or _is_number(a)) and (_is_array(b) or _is_number(b)):
            return operator.truediv(a, b)
    for method, own, other in (("__div__", a, b), ("__rdiv__", b, a)):
        divide: Any = getattr(type(own), method, None)
        if divide is not None:
            result = divide(own, other)
            if result is not NotImplemented:
                return result
    return operator.truediv(a, b)


def old_idiv(a: Any, b: Any) -> Any:
    """Returns the result of `a /= b`, as Python 2 had it; an array is changed in place."""
    if isinstance(a, np.ndarray):
        result: Any = a
        if _is_whole(a) and _is_whole(b):
            result //= b
        else:
            result /= b
        return result
    divide_in_place: Any = getattr(type(a), "__idiv__", None)
    return old_div(a, b) if divide_in_place is None else divide_in_place(a, b)


def old_round(number: Any, ndigits: int = 0) -> Any:
    """Returns a number rounded to digits, halves away from zero, as a float."""
    if not isinstance(number, numbers.Real):
        return round(number, ndigits)
    number = float(number)
    if ndigits > 0:
        exact = round(number, ndigits)
        scaled = abs(number) * 10.0**ndigits
        is_half = math.isfinite(scaled) and scaled - math.floor(scaled) == 0.5
        return math.copysign(math.ceil(scaled) / 10.0**ndigits, number) if is_half else float(exact)
    scale = 10.0**-ndigits
    return math.copysign(math.floor(abs(number) / scale + 0.5) * scale, number)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _is_whole(value: Any) -> bool:
    if _is_array(value):
        return value.dtype.kind in "biu"
    return isinstance(value, numbers.Integral)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number)
