"""tf.contrib: what old programs used of it, one module per package.

A module is imported when it is first asked for, since each may need a package of its own.
"""

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
