"""The linear model of the Estimator's own tests, for tests of several of its modules."""

import pathlib
import runpy

import pytest

_SHARED = pathlib.Path(__file__).parents[1] / "replicate" / "estimator" / "conftest.py"
_fixtures = runpy.run_path(str(_SHARED))

linear = _fixtures["linear"]
stub = _fixtures["stub"]


@pytest.fixture(autouse=True, scope="module")
def unoptimized_graphs(plain_sessions):
    """Graphs run as they are: optimizing them takes longer than all of their steps."""
