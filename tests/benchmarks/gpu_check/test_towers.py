import numpy as np
import pytest

from benchmarks.gpu_check import towers
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.models import Mlp
from benchmarks.gpu_check.outcome import Verdict
from benchmarks.gpu_check.training import momentum


@pytest.fixture
def small(monkeypatch):
    """One model and one optimizer."""
    monkeypatch.setattr(towers, "MODELS", {"MLP": lambda: Mlp(8)})
    monkeypatch.setattr(towers, "OPTIMIZERS", {"momentum": momentum})


def test_relative_difference():
    expected = [np.array([1.0, -4.0]), np.array([[2.0]])]
    found = [np.array([1.0, -4.5]), np.array([[2.25]])]
    assert towers.relative_difference(found, expected) == 0.125


def test_towers_of_logical_devices_are_equal(small):
    outcome = towers.compare(choose_devices([]), steps=3)
    assert outcome.verdict is Verdict.OK
    ((model, optimizer, difference, again, fall),) = outcome.tables[0].rows
    assert (model, optimizer) == ("MLP", "momentum")
    assert 0 <= difference <= towers.FLOAT32_LIMIT
    assert again <= towers.FLOAT32_LIMIT
    assert fall < 1


@pytest.mark.parametrize("difference", [1e-3, float("nan")])
def test_other_weights_fail(small, monkeypatch, difference):
    monkeypatch.setattr(towers, "relative_difference", lambda found, expected: difference)
    assert towers.compare(choose_devices([]), steps=1).verdict is Verdict.FAILED
