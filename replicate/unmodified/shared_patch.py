"""Attributes of TensorFlow that are replaced while towers are built.

Several builds can overlap, in several threads too. The first one that enters replaces the
attributes, and the last one that leaves puts them back, also after an error. A replacement acts in
the towers of builds that ask for it, and is the original everywhere else.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

_ABSENT = object()


@final
class SharedPatch:
    """Replacement of attributes of one object, for as long as anybody needs it."""

    def __init__(self, find: Callable[[], tuple[Any, Mapping[str, Any]]]):
        """Replaces nothing yet. `find` then returns the object and its new attributes by name."""
        self._find = find
        self._lock = threading.Lock()
        self._entered = 0
        self._undo = contextlib.ExitStack()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Has the attributes replaced inside the context."""
        with self._lock:
            if not self._entered:
                self._replace()
            self._entered += 1
        try:
            yield
        finally:
            with self._lock:
                self._entered -= 1
                if not self._entered:
                    self._undo.close()

    def _replace(self) -> None:
        owner, attributes = self._find()
        for name, value in attributes.items():
            earlier = vars(owner).get(name, _ABSENT)
            setattr(owner, name, value)
            if earlier is _ABSENT:
                self._undo.callback(delattr, owner, name)
            else:
                self._undo.callback(setattr, owner, name, earlier)
