"""Seeds of all random numbers of a program, so that its runs can be compared.

Python imports this as `sitecustomize` when it starts. Once NumPy and TensorFlow are imported,
whoever imports them, their random numbers begin from one seed, unless the program sets another.
Keras draws from Python's while it is loaded, early or late; what it draws is put back.
"""

import importlib.abc
import importlib.machinery
import random
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

SEED = 1


def _seed_numpy(numpy: Any) -> None:
    numpy.random.seed(SEED)


def _seed_graphs(tensorflow: Any) -> None:
    """Gives each graph a seed while it has none: its random ops then count up from that."""
    own: Any = tensorflow.Graph.seed

    def seed(graph: Any) -> Any:
        given = own.fget(graph)
        return SEED if given is None else given

    tensorflow.Graph.seed = property(seed, own.fset)


def _keep(module: Any) -> None:
    """Seeds nothing: the module only draws from others while it is loaded."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that have seeds, once each, as Python does."""

    def __init__(self) -> None:
        self._left: dict[str, Callable[[Any], None]] = {
            "numpy": _seed_numpy,
            "tensorflow": _seed_graphs,
            "keras": _keep,
            "tf_keras": _keep,
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a module that has seeds, which are set when it has been loaded."""
        seed = self._left.pop(name, None)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if seed else None
        if seed is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_seed(module: types.ModuleType) -> None:
            before = random.getstate()
            load(module)
            seed(module)
            random.setstate(before)

        spec.loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec


random.seed(SEED)
sys.meta_path.insert(0, _Finder())
