"""Names of layers, counted in each graph."""

import re
import weakref
from collections import Counter
from typing import Any

_WORD = re.compile(r".[A-Z][a-z0-9]+")
_END_OF_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_counters: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


def snake_case(name: str) -> str:
    """Returns the name of a class as variables are called: "conv2d_transpose" for Conv2DTranspose.

    The name of a private class begins with "private_".
    """
    parts = _WORD.sub(lambda found: f"{found[0][0]}_{found[0][1:]}", name)
    words = _END_OF_WORD.sub("_", parts).lower()
    return f"private{words}" if words.startswith("_") else words


def unique_name(base: str, graph: Any) -> str:
    """Returns the next name of a layer in a graph: "dense_1", "dense_2"."""
    counter = _counters.setdefault(graph, Counter())
    counter[base] += 1
    return f"{base}_{counter[base]}"
