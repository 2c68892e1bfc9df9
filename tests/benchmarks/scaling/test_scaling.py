"""Cases and tables of clusters, and the measurement of real ones."""

import types

import pytest

from benchmarks import harness
from benchmarks.scaling import __main__ as points
from benchmarks.scaling import rounds, rounds_picture
from benchmarks.scaling.chains import SHAPES

FIRST = SHAPES[0]


def test_cases_are_those_that_modes_can_have(monkeypatch):
    options = types.SimpleNamespace(workers=["1", "3"], shapes=["0", "2"])
    monkeypatch.setattr(points, "FLAGS", options)
    modes = ["asynchronous", "averaging", "dedicated_workers"]
    assert points.cases(modes) == [
        ("asynchronous", FIRST, 1),
        ("asynchronous", FIRST, 3),
        ("dedicated_workers", FIRST, 3),
        ("asynchronous", SHAPES[2], 1),
        ("asynchronous", SHAPES[2], 3),
    ]


def test_table_compares_all_reduce_with_keras():
    found = {("all_reduce", FIRST, 2): [0.004, 0.006], ("keras", FIRST, 2): [0.010]}
    found[("synchronous", FIRST, 1)] = [0.002, 0.001, 0.003]
    _, _, *rows = (" ".join(row.split()) for row in points.table(found))
    assert rows == [
        "| all_reduce | 4 × 256², 512 | | 5.0 (0.50) |",
        "| keras | 4 × 256², 512 | | 10.0 |",
        "| synchronous | 4 × 256², 512 | 2.0 | |",
    ]


def test_failed_processes_are_an_error(monkeypatch):
    monkeypatch.setattr(points.sys, "executable", "false")
    with pytest.raises(harness.ChildError, match="Could not measure all_reduce with 1 workers"):
        points.measure("all_reduce", FIRST, 1, 10)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["averaging", "shared", "all_reduce"])
def test_two_real_workers_are_measured(mode):
    assert 0 < points.measure(mode, SHAPES[2], 2, 10) < 10


def test_losses_of_rounds_are_compared_with_every_step_of_the_same_seed():
    each_step = {1: [[0, 9, 0], [5, 2.0, 800]], 2: [[0, 9, 0], [5, 4.0, 800]]}
    rounds = {1: [[0, 9, 0], [5, 2.2, 8]], 2: [[0, 9, 0], [5, 3.8, 8]], 3: [[0, 9, 0], [5, 1, 8]]}
    way = ("kfac", "100", "1/0", "mean")
    found = {("kfac", "0", "", ""): each_step, way: rounds}
    assert rounds_picture.cells(found, way) == ["100", "2.5 [-5.0, 10.0]"]
    assert rounds_picture.cells(found, ("kfac", "0", "", "")) == ["", "3.0 [2.0, 4.0]"]
    assert rounds_picture.cells(found, ("adam", *way[1:])) == ["", ""]


def test_bytes_of_every_step():
    """Two layers of 3 × 1 and 2 × 2 with their biases; each of two workers sends 4 bytes once."""
    assert rounds.each_step_bytes([2, 1, 2], rounds.Case(2, "adam")) == 4 * (3 + 4)
    statistics = 6 + 1 + (1 + 2) + 3 + 3 + (2 + 2)
    inverses = (9 + 1 + 4 + 4) / 5
    expected = 4 * (3 + 4 + statistics + inverses)
    assert rounds.each_step_bytes([2, 1, 2], rounds.Case(2, "kfac")) == pytest.approx(expected)
