"""Checks of constructor arguments, made before any state is set.

Only Python values are checked: Tensors and Variables have no value while the graph is built, and
pass. Called by the optimizers and the estimator.
"""

import difflib
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterable
from typing import Any


def check_number(
    argument: str, value: Any, accepted: str, is_accepted: Callable[[float], bool]
) -> None:
    """Checks a Python number; lets None, Tensors and Variables pass.

    `accepted` describes the accepted values; `is_accepted` is called with finite numbers.

    Raises:
      ValueError: The number is not finite, or not accepted.
    """
    if not isinstance(value, numbers.Real):
        return
    if not (math.isfinite(value) and is_accepted(float(value))):
        raise ValueError(f"Cannot set up K-FAC: {argument}={value!r}. It must be {accepted}.")


def check_choice(argument: str, value: Any, accepted: Collection[Any]) -> None:
    """Checks that an argument is one of a few values.

    Raises:
      ValueError: It is another value.
    """
    if value not in accepted:
        names = ", ".join(repr(name) for name in accepted)
        raise ValueError(f"Cannot set up K-FAC: {argument}={value!r}. Accepted are {names}.")


def check_excluded(argument: str, value: Any, where: str, remedy: str) -> None:
    """Checks that an argument is None.

    `where` names the thing that excludes it, such as another argument; `remedy` is advice to the
    user.

    Raises:
      ValueError: The argument is not None.
    """
    if value is not None:
        raise ValueError(
            f"Cannot set up K-FAC: {argument}={value!r} does not go with {where}. Accepted is "
            f"None; {remedy}."
        )


def check_names(owner: str, given: Iterable[str], accepted: Collection[str]) -> None:
    """Checks the names of further arguments of a class or function that the user called.

    Raises:
      TypeError: A name is not accepted; the message suggests one that is like it.
    """
    for name in given:
        if name not in accepted:
            known = sorted(accepted)
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {close[0]}?" if close else f"Accepted are {', '.join(known)}."
            raise TypeError(f"{owner} has no argument {name}. {advice}")


def names_of(*functions: Callable[..., Any]) -> set[str]:
    """Returns the names of the arguments that the signatures of functions or classes have."""
    parameters = [p for f in functions for p in inspect.signature(f).parameters.values()]
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}


def check_period(argument: str, value: Any, unit: str = "steps") -> None:
    """Checks a number of steps, or of another unit.

    Raises:
      ValueError: The value is not an int of at least 1.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Cannot set up K-FAC: {argument}={value!r}. It must be a number of {unit}, an "
            "int of at least 1."
        )
