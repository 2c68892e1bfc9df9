"""Public names, and imports that change nothing and say nothing."""

import inspect
from pathlib import Path

import pytest

import replicate
from replicate import public

MISSING = """
import sys
sys.modules["tensorflow"] = None
import replicate
try:
    replicate.Estimator
except ImportError as error:
    print(error)
"""


def test_every_public_name_is_that_of_the_package():
    assert replicate.__all__ == public.__all__
    assert all(getattr(replicate, name) is getattr(public, name) for name in public.__all__)
    assert dir(replicate) == sorted(["__version__", *public.__all__])


def test_no_name_hides_behind_a_module():
    modules = {path.stem for path in Path(replicate.__file__).parent.iterdir()}
    named = {name for name in public.__all__ if not inspect.ismodule(getattr(public, name))}
    assert named & modules == set()


def test_modules_and_the_version_are_attributes_without_tensorflow(run_command):
    program = "import replicate, sys; print(replicate.launch.__name__, replicate.__version__)"
    done = run_command("-c", f"{program}; print('tensorflow' in sys.modules)")
    assert done.stdout.split() == ["replicate.launch", replicate.__version__, "False"]


def test_a_missing_tensorflow_is_named(run_command):
    needed = "replicate needs TensorFlow, which is not installed: pip install"
    assert run_command("-c", MISSING).stdout.startswith(needed)


@pytest.mark.parametrize("name", ["nothing_of_this_name", "_private", "__wrapped__"])
def test_other_names_are_not_there(name):
    with pytest.raises(AttributeError, match=f"module 'replicate' has no attribute '{name}'"):
        getattr(replicate, name)
