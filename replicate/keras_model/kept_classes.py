"""Keeps the classes of Keras 2 as they are while models are made in graphs.

Where operations do not run eagerly, Keras 2 puts other base classes under all classes of layers and
models that it makes. Models that were made eagerly before are of these classes, too, and break.
"""

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def kept_classes(keras: Any) -> Iterator[None]:
    """Gives the layers and models of a Keras their base classes back when the context ends."""
    earlier = {each: each.__bases__ for each in _subclasses(keras.layers.Layer)}
    try:
        yield
    finally:
        for each, bases in earlier.items():
            if each.__bases__ != bases:
                each.__bases__ = bases


def _subclasses(kind: type) -> set[type]:
    """Returns all subclasses of a class."""
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        new: set[type] = set(waiting.pop().__subclasses__()) - found
        found |= new
        waiting += new
    return found
