"""All layers make what those of tf-keras make: the same names, shapes, collections and numbers.

On TensorFlow 2.15 they are compared with its own Keras 2.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import layers
from tests.replicate.compat.layers import cases

needs_tf_keras = pytest.mark.skipif(
    not hasattr(tf, "estimator") and importlib.util.find_spec("tf_keras") is None,
    reason="tf-keras is not installed",
)


@pytest.fixture(scope="module")
def recorded(run_python):
    """Returns what all programs make, in a child process."""
    program = Path(cases.__file__).read_text()

    def run(*arguments):
        legacy = {} if hasattr(tf, "estimator") else {"TF_USE_LEGACY_KERAS": "1"}
        done = run_python(program, *arguments, environment=legacy)
        assert done.code == 0, done.err[-3000:]
        return json.loads(done.out.splitlines()[-1])

    return run


def compare(found, expected, name):
    for part, numbers in zip(found.pop("numbers"), expected.pop("numbers"), strict=True):
        for one, other in zip(part, numbers, strict=True):
            if one != other:  # Texts are equal.
                limit = 1e-6 * max(1, np.max(np.abs(other)))
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=limit, err_msg=name)
    assert found == expected, name


FEW = ("dense", "windows_valid_channels_last", "scopes", "settings_of_scopes", "own_layers")
FEW += tuple(f"batch_normalization_{each}" for each in ("training", "told_inference", "renorm"))
ALL = pytest.param(tuple(cases.CASES), id="all", marks=pytest.mark.broad)


@needs_tf_keras
@pytest.mark.parametrize("programs", [pytest.param(FEW, id="few"), ALL])
def test_names_collections_and_numbers_with_resource_variables(recorded, programs):
    for name, expected in recorded("resource", *programs).items():
        compare(cases.record(name, layers), expected, name)


@needs_tf_keras
@pytest.mark.slow
def test_names_collections_and_numbers_with_reference_variables(recorded):
    found = recorded("ours_reference", *cases.CASES)
    for name, expected in recorded("reference", *cases.CASES).items():
        compare(found[name], expected, name)
