"""Graph collections as each tower should see them.

Layers leave losses, update operations and summaries in collections of the whole graph, and code in
a `model_fn` reads them back as if it were alone. Here each tower sees what was there before the
towers, and its own; afterwards the collections hold everything again, but for summaries, which are
those of the first tower unless asked for all, and what was made outside of the towers on the way.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import tensorflow as tf

v1 = tf.compat.v1
Keys = v1.GraphKeys

Summaries: TypeAlias = Literal["first", "all"]
"""Whose summaries are written: the first tower's, or those of all."""


class TowerCollections:
    """Hides the towers of one replicated call from each other in the graph's collections."""

    def __init__(self, regularization: Literal["every", "first"], summaries: Summaries = "first"):
        """Notes what the collections hold before the first tower.

        Args:
          regularization: "every" if each tower's loss may add the regularization losses, because
            towers are averaged; "first" if only the first tower's may, because they are added:
            the others then see zeros.
          summaries: Whose summaries are kept.
        """
        self._summaries = summaries
        self._separate = [Keys.LOSSES, Keys.UPDATE_OPS, Keys.SUMMARIES]
        self._hidden_later = [Keys.REGULARIZATION_LOSSES] if regularization == "first" else []
        self._ambient = {key: v1.get_collection(key) for key in self._separate}
        self._added: dict[str, list[Any]] = {key: [] for key in self._separate}
        self._start: dict[Any, int] = {}
        self._outside: list[Any] = []

    @contextlib.contextmanager
    def tower(self, index: int) -> Iterator[None]:
        """Shows the collections to tower `index` as if it were the only one."""
        held = {key: v1.get_collection(key) for key in self._hidden_later if index}
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
        """Keeps the summaries that are made inside, whichever tower is being built."""
        summaries = v1.get_collection_ref(Keys.SUMMARIES)
        start = len(summaries)
        yield
        self._outside += summaries[start:]

    def of_tower(self, key: str) -> list[Any]:
        """Returns what the current tower has added to a collection, or the last one after it."""
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
