"""tf.contrib: what old programs used of it, one module per package.

`from replicate.compat import contrib` gives all of them: each is loaded when it is first used.
"""

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
