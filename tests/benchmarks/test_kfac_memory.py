"""Memory of K-FAC on one and two GPUs, compared with sizes of the factors."""

import types

import numpy as np
import pytest

from benchmarks import kfac_memory
from benchmarks.device_traffic.traffic import Crossing
from benchmarks.kfac_memory import Factor, Memory

FLOAT = 4
SIDE = 12
CLASSES = 5
LENET = np.array([76, 32, 801, 64, 64 * (SIDE // 4) ** 2 + 1, 1024, 1025, CLASSES])
"""Rows of the factors of LeNet: patches of 5·5·3 and 5·5·32 entries, and two dense layers."""
PARAMETERS = FLOAT * int(np.sum(LENET[::2] * LENET[1::2]))


def packed(rows):
    """Returns the bytes of the lower triangles of float32 matrices, made even in size."""
    even = rows + rows % 2
    return FLOAT * even * (even + 1) // 2


@pytest.fixture(scope="module")
def two_towers():
    options = {"network": "lenet", "image_size": SIDE, "classes": CLASSES, "batch_per_tower": 2}
    with pytest.MonkeyPatch.context() as patch:
        flags = types.SimpleNamespace(**options, scale_and_shift="full")
        patch.setattr(kfac_memory, "FLAGS", flags)
        return kfac_memory.find(2)


def test_each_factor_is_kept_once(two_towers):
    factors = two_towers.factors
    assert [factor.rows for factor in factors] == list(LENET)
    assert [factor.average_bytes for factor in factors] == list(FLOAT * LENET**2)
    assert [factor.inverse_bytes for factor in factors] == list(FLOAT * LENET**2)
    assert [factor.cost for factor in factors] == list(LENET**3)
    assert two_towers.velocities == {"CPU:0": PARAMETERS}
    kept = {}
    for factor in factors:
        for device in (factor.average, factor.inverse):
            kept[device] = kept.get(device, 0) + FLOAT * factor.rows**2
    assert set(kept) == {"GPU:0", "GPU:1"}
    movable = [f.average_bytes for f in factors if f.average == max(kept, key=kept.get)]
    assert min(movable) >= abs(kept["GPU:0"] - kept["GPU:1"])


def test_one_packed_sum_of_each_factor_crosses(two_towers):
    average = np.array([factor.average for factor in two_towers.factors])
    scalars = 20
    for name, other in (("GPU:0", "GPU:1"), ("GPU:1", "GPU:0")):
        received = [each for each in two_towers.sums if each.target == name]
        sums = np.sum(packed(LENET[average == name]))
        assert 0 <= sum(each.bytes for each in received) - sums < scalars
        assert {each.source for each in received} == {other}


def test_lines_show_megabytes_and_shares_of_the_work():
    factors = [
        Factor("a", 100, "GPU:0", "GPU:1", 10**7, 5 * 10**7, 3e9),
        Factor("b", 100, "GPU:1", "GPU:1", 3 * 10**7, 0, 0.0),
        Factor("c", 7, "GPU:0", "GPU:0", 10**7, 0, 1e9),
    ]
    sums = [Crossing("x", "", "GPU:1", "GPU:0", 5 * 10**6, (), False)]
    lines = list(kfac_memory.device_lines(2, Memory(factors, sums, {"CPU:0": 2 * 10**6})))
    assert lines == [
        "| 2 | CPU:0 | 0 | 0 | 0 | 0% | 0 | 0 | 0 | 2 |",
        "| 2 | GPU:0 | 20 | 0 | 20 | 25% | 5 | 25 | 0 | 0 |",
        "| 2 | GPU:1 | 30 | 50 | 80 | 75% | 0 | 80 | 10 | 0 |",
    ]
    assert list(kfac_memory.factor_lines(factors, shown=1)) == [
        "| 100 | 2 | 90 | 90% | 75% | a |",
        "| others | 1 | 10 | 10% | 25% | c |",
    ]
