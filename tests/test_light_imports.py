"""Modules that answer at once, or where there is no TensorFlow: they do not import it."""

import pytest

LIGHT = [
    "benchmarks.kfac_step.__main__",
    "benchmarks.scaling.__main__",
    "benchmarks.scaling.cluster_points",
    "benchmarks.time_to_loss.__main__",
    "replicate",
    "replicate.addresses",
    "replicate.launch",
    "replicate.tower.default_towers",
]
PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    print(name, "tensorflow" in sys.modules)
"""


@pytest.fixture(scope="module")
def loaded(run_command):
    """Module -> "True" if TensorFlow is there after this and the modules before it are imported."""
    return dict(line.split() for line in run_command("-c", PROGRAM, *LIGHT).stdout.splitlines())


@pytest.mark.parametrize("name", LIGHT)
def test_module_loads_no_tensorflow(loaded, name):
    assert loaded[name] == "False"
