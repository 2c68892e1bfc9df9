import json

from benchmarks.gpu_check import report
from benchmarks.gpu_check.devices import Gpu, choose_devices
from benchmarks.gpu_check.outcome import Table, failed, from_json, judge, skipped

GPUS = [Gpu("A100", (8, 0), 40 * 2**30), Gpu("unknown GPU", (), 2**30)]
OUTCOMES = {
    "tests": skipped("no GPU"),
    "towers": judge(True, "equal", Table("Differences", ("model", "x"), [["MLP", 1.25e-7]])),
    "steps": failed("exit code 1; see steps.log"),
}


def test_markdown_has_a_table_of_parts_and_a_section_for_each():
    lines = list(report.markdown(GPUS, choose_devices(GPUS), OUTCOMES))
    assert lines[:3] == ["# GPU check", "", "2 towers on /gpu:0 /gpu:1."]
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


def test_markdown_tells_that_there_is_no_gpu():
    text = "\n".join(report.markdown([], choose_devices([]), OUTCOMES))
    assert "No GPU: this run shows only that the check works." in text


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


def test_line_for_a_terminal():
    assert report.line("tests", OUTCOMES["tests"]).split() == [
        "tests",
        "skipped",
        "0",
        "s",
        "no",
        "GPU",
    ]
