"""Graph collections as each tower sees them.

Layers add losses, update operations and summaries to collections of the whole graph, and a
`model_fn` reads these collections as if it were alone. So while a tower is built, it sees only the
entries that were there before the towers, and its own. Afterwards the collections hold all entries
again, except for summaries: those of the first tower, or of all towers if asked, and those made
outside of the towers.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate.tower.build import Summaries

v1 = tf.compat.v1
Keys = v1.GraphKeys


class TowerCollections:
    """Hides the towers of one replicated call from each other in the graph's collections."""

    def __init__(self, regularizes: Callable[[int], bool], summaries: Summaries = "first"):
        """Remembers the entries of the collections before the first tower.

        Args:
          regularizes: Returns True for the number of a tower that adds the regularization losses to
            its loss: each one if losses are averaged, the first one if they are summed. The others
            see zeros.
          summaries: Towers whose summaries are kept.
        """
        self._summaries = summaries
        self._separate = [Keys.LOSSES, Keys.UPDATE_OPS, Keys.SUMMARIES]
        self._regularizes = regularizes
        self._ambient = {key: v1.get_collection(key) for key in self._separate}
        self._added: dict[str, list[Any]] = {key: [] for key in self._separate}
        self._start: dict[Any, int] = {}
        self._outside: list[Any] = []

    @contextlib.contextmanager
    def tower(self, index: int) -> Iterator[None]:
        """Shows the collections to tower `index` as if it were the only one."""
        hidden = [] if self._regularizes(index) else [Keys.REGULARIZATION_LOSSES]
        held = {key: v1.get_collection(key) for key in hidden}
        for key in self._separate:
            v1.get_collection_ref(key)[:] = self._ambient[key]
        for key, values in held.items():
            v1.get_collection_ref(key)[:] = [tf.zeros_like(value) for value in values]
        keys = v1.get_default_graph().get_all_collection_keys()
        self._start = {key: len(v1.get_collection_ref(key)) for key in keys}
        try:
            yield
        finally:
            self._restore(index, held)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Keeps the summaries made inside, even while a later tower is built."""
        summaries = v1.get_collection_ref(Keys.SUMMARIES)
        start = len(summaries)
        yield
        self._outside += summaries[start:]

    def of_tower(self, key: str) -> list[Any]:
        """Returns the entries that the current (or else the last) tower added to a collection."""
        return list(v1.get_collection_ref(key)[self._start.get(key, 0) :])

    def _restore(self, index: int, held: dict[str, list[Any]]) -> None:
        for key in self._separate:
            added = self.of_tower(key)
            if key == Keys.SUMMARIES and index > 0 and self._summaries == "first":
                added = [new for new in added if any(new is kept for kept in self._outside)]
            self._added[key] += added
            v1.get_collection_ref(key)[:] = [*self._ambient[key], *self._added[key]]
        for key, values in held.items():
            v1.get_collection_ref(key)[: len(values)] = values
        self._start = {}
