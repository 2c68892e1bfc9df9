"""The report of the check on GPUs, and the devices that it names."""

import json
from typing import NamedTuple

import pytest
import tensorflow as tf

from benchmarks.gpu_check import devices, report
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


def test_markdown_has_a_table_of_parts_and_a_section_for_each():
    lines = list(report.markdown(GPUS, choose_devices(GPUS), OUTCOMES))
    assert lines[:3] == ["# GPU check", "", "2 towers on /gpu:0 /gpu:1."]
    without = "\n".join(report.markdown([], choose_devices([]), OUTCOMES))
    assert "No GPU: this run shows only that the check works." in without
    assert "| A100 | 8.0 | 40 |" in lines
    assert "| unknown GPU | – | 1 |" in lines
    assert "| tests | skipped | 0 | no GPU |" in lines
    assert "| steps | failed | 0 | exit code 1; see steps.log |" in lines
    section = lines[lines.index("## towers") : lines.index("## steps")]
    assert section == [
        "## towers",
        "",
        "ok: equal.",
        "",
        "Differences:",
        "",
        "| model | x |",
        "| --- | --- |",
        "| MLP | 1.25e-07 |",
        "",
    ]


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


def test_set_up_splits_one_gpu(monkeypatch):
    made, soft = [], []
    monkeypatch.setattr(tf.config, "set_soft_device_placement", soft.append)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"physical {kind}"])
    monkeypatch.setattr(
        tf.config, "set_logical_device_configuration", lambda *arguments: made.append(arguments)
    )
    devices.set_up(choose_devices([SMALL]))
    devices.set_up(choose_devices([SMALL] * 2))
    devices.set_up(choose_devices([]))
    (gpu, parts), (cpu, cpus) = made
    assert (gpu, cpu) == ("physical GPU", "physical CPU")
    assert soft == [True] * 3
    assert [part.memory_limit for part in parts] == [4096, 4096]
    assert len(cpus) == 2


class Listed(NamedTuple):
    """Device in the list of a session."""

    device_type: str
    memory_limit_bytes: int


def test_gpus_are_found_with_name_and_memory(monkeypatch):
    details = {"one": {"device_name": "T4", "compute_capability": (7, 5)}, "two": {}}
    listed = [Listed("CPU", 1), Listed("GPU", 10), Listed("GPU", 20)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(details))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, grows: None)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details.get)
    monkeypatch.setattr(tf.compat.v1.Session, "list_devices", lambda session: listed)
    assert devices._find_gpus_here() == [Gpu("T4", (7, 5), 10), Gpu("unknown GPU", (), 20)]
