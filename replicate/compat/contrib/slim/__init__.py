"""tf.contrib.slim: tf-slim, repaired.

`slim.layers` has all of tf.contrib.layers, and `slim.metrics` all of tf.contrib.metrics.
"""

import importlib
from typing import Any

from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim

_PACKAGES = ("layers", "metrics")
_HOMES = ("", "layers", "ops.arg_scope", "ops.variables", "ops.framework_ops", "ops", "data")


def __dir__() -> list[str]:
    return sorted({*_PACKAGES, *names_of_slim(_HOMES)})


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"replicate.compat.contrib.{name}")
    return name_of_slim(name, _HOMES, __name__)
