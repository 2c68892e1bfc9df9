"""Modules that are imported late, so that `--help` and mistakes are answered at once."""

import importlib
from typing import Any


class LazyModule:
    """Module that is imported when one of its attributes is first used."""

    def __init__(self, name: str) -> None:
        """Keeps the module's full name, such as "tensorflow"."""
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
