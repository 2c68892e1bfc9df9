"""Decorators by which TensorFlow named its public symbols, and counters of their uses."""

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


def estimator_export(*names: str, **options: Any) -> Callable[[_T], _T]:
    """Returns a decorator that leaves what it decorates as it is."""
    del names, options
    return lambda decorated: decorated


class UsageCounter:
    """Counter of the uses of an API, which counts nothing."""

    def get_cell(self, *labels: str) -> "UsageCounter":
        """Returns itself for all labels."""
        del labels
        return self

    def set(self, value: Any) -> None:
        """Does nothing."""

    def increase_by(self, value: int) -> None:
        """Does nothing."""


usage_counter = UsageCounter()
