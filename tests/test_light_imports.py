"""Modules that answer at once, or where there is no TensorFlow: they do not import it.

The last ones are of the process that hands out the tests.
"""

LIGHT = [
    "benchmarks.kfac_step.__main__",
    "benchmarks.scaling.__main__",
    "benchmarks.scaling.cluster_points",
    "benchmarks.time_to_loss.__main__",
    "replicate",
    "replicate.addresses",
    "replicate.launch",
    "replicate.tower.default_towers",
    "tests.children",
    "tests.conftest",
]
PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    print(name, "tensorflow" in sys.modules)
"""


def test_modules_load_no_tensorflow(run_command):
    """Each is imported after those before it."""
    assert run_command("-c", PROGRAM, *LIGHT).stdout.split() == [
        word for name in LIGHT for word in (name, "False")
    ]
