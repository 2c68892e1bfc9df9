"""Layers that share no variables, as those of Keras do.

A layer of this style has its own variable scope even if another one has its name, and resource
variables.
"""

import contextlib
from collections.abc import Iterator

_is_on = [False]


def is_on() -> bool:
    """Returns True if layers that are made now have Keras' style."""
    return _is_on[0]


@contextlib.contextmanager
def keras_style_scope() -> Iterator[None]:
    """Gives the layers that are made inside Keras' style."""
    earlier = _is_on[0]
    _is_on[0] = True
    try:
        yield
    finally:
        _is_on[0] = earlier


def set_keras_style() -> None:
    """Gives all layers that are made from now on Keras' style."""
    _is_on[0] = True
