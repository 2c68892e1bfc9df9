"""Two processes train as one does on the batches of both: weights, state, logs and files."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from replicate.launch.plan import free_ports
from tests.replicate.keras import program

pytestmark = pytest.mark.skipif(hasattr(tf, "estimator"), reason="needs Keras 3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fit")


@pytest.fixture(scope="module")
def trained(start_python, folder):
    """Returns what the chief and a worker print."""
    chief, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    cluster = {"chief": [chief], "worker": [worker]}
    children = [
        start_python(
            Path(program.__file__).read_text(),
            folder=folder,
            environment={"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})},
        )
        for task in ({"type": "chief", "index": 0}, {"type": "worker", "index": 0})
    ]
    printed = []
    for child in children:
        child.stdin.close()
        out, err = child.communicate(110)
        assert child.returncode == 0, err[-3000:]
        printed.append(json.loads(out.splitlines()[-1]))
    return printed


def compare(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["normalized", "embedded", "curved"])
def test_weights_state_and_logs_are_those_of_one_process(trained, name):
    (chief, alone), (worker,) = (each[name] for each in trained)
    assert chief["weights"] == worker["weights"]
    assert chief["history"] == worker["history"]
    if name == "normalized":  # Each process normalizes its own batch: only means are equal.
        assert np.isfinite(chief["history"]["loss"]).all()
        return
    compare(chief["weights"], alone["weights"])
    compare(chief["state"], alone["state"])
    for part in ("history", "evaluated"):
        for key, values in alone[part].items():
            if not key.endswith("largest"):
                np.testing.assert_allclose(chief[part][key], values, rtol=2e-5, err_msg=key)


def test_a_metric_of_another_class_is_averaged(trained):
    (chief, alone), _ = (each["embedded"] for each in trained)
    assert alone["history"]["largest"] == [44, 44]
    assert chief["history"]["largest"] == [37, 37]  # of 44 and 30


def test_only_the_chief_saves(trained, folder):
    assert sorted(each.name for each in folder.glob("*.keras")) == [
        "curved_0.keras",
        "embedded_0.keras",
        "normalized_0.keras",
    ]
