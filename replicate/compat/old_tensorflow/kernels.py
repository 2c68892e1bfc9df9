"""Kernels by the old names of TensorFlow's generated modules: `apply_adam`, `resource_apply_adam`.

Each is an operation of `tf.raw_ops`, which also takes its arguments by position here, in order.
"""

import functools
import inspect
import re
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])")


@functools.cache
def _names() -> dict[str, str]:
    """Returns the names of `tf.raw_ops` by their old ones."""
    names = (name for name in dir(v1.raw_ops) if not name.startswith("_"))
    return {
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", n).lower(): n for n in names
    }


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in _names():
        raise AttributeError(f"TensorFlow has no operation {name!r}.")
    operation = getattr(v1.raw_ops, _names()[name])
    order = list(inspect.signature(operation).parameters)

    @functools.wraps(operation)
    def by_position(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"{name} takes {len(order)} arguments, {order}; got {len(args)}.")
        return operation(**dict(zip(order, args, strict=False)), **kwargs)

    return by_position


def __dir__() -> list[str]:
    return sorted(_names())
