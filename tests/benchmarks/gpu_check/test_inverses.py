import numpy as np
import pytest

from benchmarks.gpu_check import inverses
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.outcome import Verdict


def test_second_moment_has_a_known_spectrum():
    values = np.linalg.eigvalsh(inverses.second_moment(10).astype(np.float64))
    np.testing.assert_allclose(values, np.logspace(-8, 0, 10), atol=1e-6)


@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_inverses_are_within_the_limit(method):
    outcome = inverses.invert(choose_devices([]), [method], [10])
    assert outcome.verdict is Verdict.OK, outcome.summary
    good, bad = (table.rows for table in outcome.tables)
    assert [row[0] for row in (*good, *bad)] == [method, method]
    assert all(0 < row[1] <= inverses.LIMIT for row in (*good, *bad))


def test_wrong_inverses_fail(monkeypatch):
    monkeypatch.setattr(inverses, "LIMIT", 1e-6)
    assert inverses.invert(choose_devices([]), ["cholesky"], [10]).verdict is Verdict.FAILED
