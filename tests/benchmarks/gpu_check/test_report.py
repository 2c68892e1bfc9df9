"""The report of the check on GPUs, and the devices that it names."""

import json

import pytest

from benchmarks.gpu_check import report
from benchmarks.gpu_check.devices import Devices, Gpu, choose_devices
from benchmarks.gpu_check.outcome import Table, failed, from_json, judge, skipped

GPUS = [Gpu("A100", (8, 0), 40 * 2**30), Gpu("unknown GPU", (), 2**30)]
OUTCOMES = {
    "tests": skipped("no GPU"),
    "towers": judge(True, "equal", Table("Differences", ("model", "x"), [["MLP", 1.25e-7]])),
    "steps": failed("exit code 1; see steps.log"),
}
A100 = Gpu("A100", (8, 0), 38 * 2**30)
SMALL = Gpu("T4", (7, 5), 10 * 2**30)


def test_files(tmp_path):
    report.write(tmp_path, GPUS, choose_devices(GPUS), OUTCOMES)
    assert (tmp_path / "report.md").read_text().startswith("# GPU check\n")
    measured = json.loads((tmp_path / "report.json").read_text())["measured"]
    assert measured["gpus"][0] == {
        "name": "A100",
        "compute_capability": [8, 0],
        "memory": 40 * 2**30,
    }
    parts = {name: from_json(data) for name, data in measured["parts"].items()}
    assert [part.verdict for part in parts.values()] == ["skipped", "ok", "failed"]
    assert parts["towers"].tables[0].rows == [["MLP", 1.25e-7]]
    line = report.line("tests", OUTCOMES["tests"])
    assert line.split() == ["tests", "skipped", "0", "s", "no", "GPU"]


@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        ([], Devices(("/cpu:0", "/cpu:1"))),
        ([A100], Devices(("/gpu:0", "/gpu:1"), 8192)),
        ([SMALL], Devices(("/gpu:0", "/gpu:1"), 4096)),
        ([A100] * 3, Devices(("/gpu:0", "/gpu:1", "/gpu:2"))),
        ([A100] * 8, Devices(("/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3"))),
    ],
)
def test_choice(gpus, chosen):
    assert choose_devices(gpus) == chosen
    assert str(choose_devices([A100] * 2)) == "2 towers on /gpu:0 /gpu:1"
    assert str(choose_devices([SMALL])).endswith("/gpu:1, one GPU in parts of 4096 MiB")
