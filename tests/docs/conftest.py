"""The import of modules of docs/ and tools/, for the tests of the site."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def load():
    """Imports a module of docs/ or tools/ from its file, relative to the project."""

    def imported(file):
        spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return imported
