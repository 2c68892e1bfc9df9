"""Memory of K-FAC on one and two GPUs, compared with sizes of the factors."""

import json

import numpy as np
import pytest

from benchmarks.kfac_memory import __main__ as kfac_memory
from benchmarks.kfac_memory import device_memory, training_step
from benchmarks.kfac_memory.device_memory import DeviceMemory, FactorMemory, Memory

FLOAT = 4
SIDE = 12
CLASSES = 5
LENET = np.array([76, 32, 801, 64, 64 * (SIDE // 4) ** 2 + 1, 1024, 1025, CLASSES])
"""Rows of the factors of LeNet: patches of 5·5·3 and 5·5·32 entries, and two dense layers."""
PARAMETERS = FLOAT * int(np.sum(LENET[::2] * LENET[1::2]))
MB = 10**6
FACTORS = [
    FactorMemory("fc/w/input", 4608, "GPU:1", "GPU:0", 40 * MB, 40 * MB, 3e9),
    FactorMemory("fc/w/output", 64, "GPU:0", "GPU:0", 10 * MB, 10 * MB, 1e9),
]
MEMORY = Memory(
    {
        "CPU:0": DeviceMemory(velocities=7 * MB),
        "GPU:0": DeviceMemory(10 * MB, 50 * MB, 0, 5 * MB, 20 * MB, 40 * MB, 3e9),
        "GPU:1": DeviceMemory(averages=40 * MB, cost=1e9),
    },
    FACTORS,
)


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


def test_sizes_with_the_most_bytes_come_first():
    factors = [
        FactorMemory(str(number), rows, "GPU:0", "GPU:0", rows**2, rows**2, rows**3)
        for number, rows in enumerate([4, 5, 4, 1])
    ]
    groups = device_memory.by_rows(factors)
    assert {rows: [each.name for each in group] for rows, group in groups.items()} == {
        4: ["0", "2"],
        5: ["1"],
        1: ["3"],
    }
    assert list(groups) == [4, 5, 1]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_lines_of_devices_and_of_factors_in_megabytes():
    lines = list(kfac_memory.device_lines(2, MEMORY))
    assert [cells(line) for line in lines] == [
        ["2", "CPU:0", "0", "0", "0", "0%", "0", "0", "0", "7"],
        ["2", "GPU:0", "10", "50", "60", "75%", "5", "65", "40", "0"],
        ["2", "GPU:1", "40", "0", "40", "25%", "0", "40", "0", "0"],
    ]
    assert len(cells(lines[0])) == len(kfac_memory.DEVICE_TITLES)
    groups = {4608: FACTORS[:1], 64: FACTORS[1:]}
    *_, largest, others = (cells(line) for line in kfac_memory.factor_lines(groups, 1))
    assert largest == ["4608", "1", "80", "80%", "75%", "`fc/w/input`"]
    assert others == ["others", "1", "20", "20%", "25%", "`fc/w/output`"]
    assert len(list(kfac_memory.factor_lines(groups, 2))) == 4
    found = json.loads(json.dumps(kfac_memory.record(MEMORY)))
    assert found["devices"]["GPU:0"]["fetched"] == 40 * MB
    assert found["factors"][0]["average"] == "GPU:1"


@pytest.mark.slow
def test_program(run_benchmark):
    options = ["--network=lenet", "--image_size=12", "--classes=5", "--towers=1", "--towers=2"]
    found = run_benchmark("kfac_memory", *options, draws=False)
    assert found["settings"]["network"] == "lenet"
    assert set(found["1"]["devices"]) == {"GPU:0"}
    assert set(found["2"]["devices"]) == {"CPU:0", "GPU:0", "GPU:1"}
