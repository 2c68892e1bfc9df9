"""Memory of K-FAC on one and two GPUs, compared with sizes of the factors."""

import numpy as np
import pytest

from benchmarks.kfac_memory import __main__ as kfac_memory
from benchmarks.kfac_memory import device_memory, training_step
from benchmarks.kfac_memory.device_memory import DeviceMemory, Memory

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
    settings = training_step.Settings(
        network="lenet", image_size=SIDE, classes=CLASSES, batch_per_tower=2
    )
    return device_memory.memory(training_step.build(settings, 2))


def test_each_factor_is_kept_once(two_towers):
    assert [factor.rows for factor in two_towers.factors] == list(LENET)
    assert [factor.average_bytes for factor in two_towers.factors] == list(FLOAT * LENET**2)
    assert [factor.inverse_bytes for factor in two_towers.factors] == list(FLOAT * LENET**2)
    devices = two_towers.devices
    assert list(devices) == ["CPU:0", "GPU:0", "GPU:1"]
    assert devices["CPU:0"] == device_memory.DeviceMemory(velocities=PARAMETERS)
    for kind in ("average", "inverse"):
        at = np.array([getattr(factor, kind) for factor in two_towers.factors])
        for name in ("GPU:0", "GPU:1"):
            expected = FLOAT * np.sum(LENET[at == name] ** 2)
            assert getattr(devices[name], f"{kind}s") == expected > 0
    kept = [devices[name].kept for name in ("GPU:0", "GPU:1")]
    fuller = f"GPU:{np.argmax(kept)}"
    movable = FLOAT * LENET[[factor.average == fuller for factor in two_towers.factors]] ** 2
    assert np.all(movable >= abs(kept[0] - kept[1]))


def test_one_packed_sum_of_each_factor_crosses(two_towers):
    average = np.array([factor.average for factor in two_towers.factors])
    inverse = np.array([factor.inverse for factor in two_towers.factors])
    scalars = 20
    for name, other in (("GPU:0", "GPU:1"), ("GPU:1", "GPU:0")):
        sums = np.sum(packed(LENET[average == name]))
        assert 0 <= two_towers.devices[name].received - sums < scalars
        assert two_towers.devices[other].sent == two_towers.devices[name].received
        fetched = FLOAT * np.sum(LENET[(inverse == name) & (average != name)] ** 2)
        assert two_towers.devices[name].fetched == fetched
        cost = np.sum(LENET[inverse == name] ** 3)
        assert two_towers.devices[name].cost == cost


def test_lines_of_devices_show_megabytes_and_shares_of_the_work():
    devices = {
        "GPU:0": DeviceMemory(10**7, 5 * 10**7, 0, 5 * 10**6, 2 * 10**7, 4 * 10**7, 3e9),
        "GPU:1": DeviceMemory(averages=4 * 10**7, cost=1e9),
    }
    lines = list(kfac_memory.device_lines(2, Memory(devices, [])))
    assert lines == [
        "| 2 | GPU:0 | 10 | 50 | 60 | 75% | 5 | 65 | 40 | 0 |",
        "| 2 | GPU:1 | 40 | 0 | 40 | 25% | 0 | 40 | 0 | 0 |",
    ]
