"""Old arguments for functions that have them in another order now, or by other names."""

import functools
from collections.abc import Callable, Sequence
from typing import Any


def with_old_arguments(
    function: Callable[..., Any], keywords: Sequence[tuple[str, str]]
) -> Callable[..., Any]:
    """Returns a function that takes the old arguments, by keywords as in `Row`.

    It raises a TypeError for more positional arguments than there are keywords.
    """
    renamed = dict(keywords)
    order = [new for _, new in keywords]

    @functools.wraps(function)
    def with_old(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(
                f"{function.__name__} takes {len(order)} positional arguments, "
                f"{', '.join(renamed)}; got {len(args)}."
            )
        named = {renamed.get(name, name): value for name, value in kwargs.items()}
        return function(**dict(zip(order, args, strict=False)), **named)

    return with_old
