import importlib
import json
import re
import types

import pytest

from benchmarks.gpu_check.machine import Devices, Gpu, choose_devices
from benchmarks.gpu_check.outcome import FAILED, OK

main = importlib.import_module("benchmarks.gpu_check.__main__")
A100 = Gpu("A100", (8, 0), 38 * 2**30)
T4 = Gpu("T4", (7, 5), 10 * 2**30)


@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        ([], Devices(("/cpu:0", "/cpu:1"))),
        ([A100], Devices(("/gpu:0", "/gpu:1"), 8192)),
        ([T4], Devices(("/gpu:0", "/gpu:1"), 4096)),
        ([A100] * 3, Devices(("/gpu:0", "/gpu:1", "/gpu:2"))),
        ([A100] * 8, Devices(("/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3"))),
    ],
)
def test_towers_are_on_gpus_or_on_parts_of_the_only_one(gpus, chosen):
    assert choose_devices(gpus) == chosen


def test_a_failing_part_gives_exit_code_1_and_is_reported(tmp_path, monkeypatch):
    options = types.SimpleNamespace(part=["broken"], folder=str(tmp_path), slowdown=1.0, devices="")
    failing = ["python3", "-c", "raise SystemExit('out of luck')"]
    monkeypatch.setattr(main, "FLAGS", options)
    monkeypatch.setattr(main, "find_gpus", list)
    monkeypatch.setattr(main, "PARTS", {"broken": main.Part("no_such_module.run", 60)})
    monkeypatch.setattr(main.harness, "command", lambda *_: failing)
    assert main.main([]) == 1
    assert "out of luck" in (tmp_path / "broken.log").read_text()
    assert re.search(r"\| broken +\| failed +\|", (tmp_path / "report.md").read_text())
    parts = json.loads((tmp_path / "report.json").read_text())["measured"]["parts"]
    assert parts["broken"]["verdict"] == FAILED


def test_parts_say_which_gpu_they_need():
    tf32, tests = main.PARTS["towers_tf32"], main.PARTS["tests"]
    assert tests.reason_to_skip([]) == tf32.reason_to_skip([]) == "no GPU"
    assert tests.reason_to_skip([T4]) == tf32.reason_to_skip([A100]) == ""
    assert tf32.reason_to_skip([T4]) == "T4 has compute capability 7.5, needed is 8.0"


@pytest.mark.slow
def test_a_part_from_end_to_end(tmp_path):
    parts = ["mixed_precision"]
    outcomes = main.check(parts, [], choose_devices([]), tmp_path, slowdown=3.0)
    assert outcomes["mixed_precision"].verdict == OK, outcomes
    assert outcomes["mixed_precision"].seconds > 0
    found = json.loads((tmp_path / "mixed_precision.json").read_text())
    assert found["summary"] == outcomes["mixed_precision"].summary
