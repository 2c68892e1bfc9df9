import json
from pathlib import Path

import pytest

from benchmarks.kfac_memory import __main__ as kfac_memory
from benchmarks.kfac_memory.device_memory import DeviceMemory, FactorMemory, Memory

ROOT = Path(__file__).resolve().parents[3]
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


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_device_lines():
    lines = list(kfac_memory.device_lines(2, MEMORY))
    assert [cells(line) for line in lines] == [
        ["2", "CPU:0", "0", "0", "0", "0%", "0", "0", "0", "7"],
        ["2", "GPU:0", "10", "50", "60", "75%", "5", "65", "40", "0"],
        ["2", "GPU:1", "40", "0", "40", "25%", "0", "40", "0", "0"],
    ]
    assert len(cells(lines[0])) == len(kfac_memory.DEVICE_TITLES)


def test_factor_lines_end_with_the_others():
    groups = {4608: FACTORS[:1], 64: FACTORS[1:]}
    *_, largest, others = (cells(line) for line in kfac_memory.factor_lines(groups, 1))
    assert largest == ["4608", "1", "80", "80%", "75%", "`fc/w/input`"]
    assert others == ["others", "1", "20", "20%", "25%", "`fc/w/output`"]
    assert len(list(kfac_memory.factor_lines(groups, 2))) == 4


def test_record_is_json():
    found = json.loads(json.dumps(kfac_memory.record(MEMORY)))
    assert found["devices"]["GPU:0"]["fetched"] == 40 * MB
    assert found["factors"][0]["average"] == "GPU:1"


@pytest.mark.slow
def test_program(tmp_path, run_python):
    data = tmp_path / "found.json"
    program = "import runpy; runpy.run_module('benchmarks.kfac_memory', run_name='__main__')"
    options = ["--network=lenet", "--image_size=12", "--classes=5", f"--json={data}"]
    towers = ["--towers=1", "--towers=2"]
    done = run_python(program, *options, *towers, folder=ROOT, quick=True)
    assert done.code == 0, done.err
    found = json.loads(data.read_text())["measured"]
    assert found["settings"]["network"] == "lenet"
    assert set(found["1"]["devices"]) == {"GPU:0"}
    assert set(found["2"]["devices"]) == {"CPU:0", "GPU:0", "GPU:1"}
    assert "| 2 | GPU:1 |" in done.out
