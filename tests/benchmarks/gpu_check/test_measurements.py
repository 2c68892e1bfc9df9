"""Measurements of the check on GPUs, as they run on a CPU or on made-up profiles."""

import numpy as np
import pytest

from benchmarks.gpu_check import inverses, numbers
from benchmarks.gpu_check.machine import choose_devices
from benchmarks.gpu_check.outcome import FAILED, OK
from benchmarks.gpu_check.training import mlp, momentum


@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_inverses_are_within_the_limit(monkeypatch, method):
    outcome = inverses.invert(choose_devices([]), [method], [10])
    assert outcome.verdict == OK, outcome.summary
    rows = outcome.tables[0].rows
    assert [row[:2] for row in rows] == [[method, damping] for damping in inverses.DAMPINGS]
    assert all(0 < row[2] <= inverses.LIMIT for row in rows)
    monkeypatch.setattr(inverses, "LIMIT", 1e-6)
    assert inverses.invert(choose_devices([]), [method], [10]).verdict == FAILED


def test_float16_learns_as_float32_does(monkeypatch):
    monkeypatch.setattr(numbers, "MODELS", {"MLP": mlp})
    monkeypatch.setattr(numbers, "HALF_BATCH_SIZE", 12)
    outcome = numbers.compare_precisions(choose_devices([]), steps=6)
    assert outcome.verdict == OK, outcome.summary
    ((_, first, last, last_half, _, skipped, factor),) = outcome.tables[0].rows
    assert last < first
    assert last_half < first
    assert 1 <= skipped <= numbers.MOST_SKIPPED
    assert factor == 2.0 ** (24 - skipped)


def test_towers_of_logical_devices_are_equal(monkeypatch):
    monkeypatch.setattr(numbers, "MODELS", {"MLP": lambda: mlp(8)})
    monkeypatch.setattr(numbers, "OPTIMIZERS", {"momentum": momentum})
    outcome = numbers.compare_towers(choose_devices([]), steps=3)
    assert outcome.verdict == OK
    ((model, optimizer, difference, again, fall),) = outcome.tables[0].rows
    assert (model, optimizer) == ("MLP", "momentum")
    assert 0 <= difference <= numbers.FLOAT32_LIMIT
    assert again <= numbers.FLOAT32_LIMIT
    assert fall < 1
    expected = [np.array([1.0, -4.0]), np.array([[2.0]])]
    found = [np.array([1.0, -4.5]), np.array([[2.25]])]
    assert numbers.relative_difference(found, expected) == 0.125
    monkeypatch.setattr(numbers, "relative_difference", lambda found, expected: float("nan"))
    assert numbers.compare_towers(choose_devices([]), steps=1).verdict == FAILED
