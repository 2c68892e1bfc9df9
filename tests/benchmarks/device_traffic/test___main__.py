import json
from pathlib import Path

import pytest

from benchmarks.device_traffic import __main__ as device_traffic
from benchmarks.device_traffic.traffic import Crossing, Stray, Traffic

ROOT = Path(__file__).resolve().parents[3]
MEASURED = Traffic(
    operations={"CPU:0": 2, "GPU:0": 3},
    crossings=[
        Crossing("batch:0", "Split", "CPU:0", "GPU:0", 4000, ("a", "b", "c"), is_wait=False),
        Crossing("all:0", "All", "GPU:0", "CPU:0", 1, ("switch",), is_wait=True),
    ],
    strays=[Stray("text", "AsString", "GPU:0")],
    rounds=1,
    transfers=2,
)


def test_lines_show_bytes_and_waits():
    head, line = device_traffic.lines({"mine": MEASURED})
    assert head.split()[:3] == ["step", "CPU>GPU,", "kB"]
    assert line.split() == ["mine", "4.0", "0.0", "0.0", "1", "1", "1"]


def test_details_name_tensors():
    crossing, wait, stray = (" ".join(line.split()) for line in device_traffic.details(MEASURED))
    assert crossing == "crosses CPU:0 > GPU:0 4000 B Split batch:0 for a, b"
    assert wait == "wait GPU:0 > CPU:0 1 B All all:0 for switch"
    assert stray == "no kernel GPU:0 AsString text"


def test_links_show_bytes_and_the_largest():
    link, other, most = (" ".join(line.split()) for line in device_traffic.link_lines(MEASURED))
    assert (link, other) == ("link CPU:0 > GPU:0 4000 B", "link GPU:0 > CPU:0 1 B")
    assert most == (
        "most on a link 4000 B, into a memory 4000 B, out of a memory 4000 B; "
        "2 transfers one after another"
    )


def test_record_has_links():
    record = device_traffic.record(MEASURED)
    assert record["links"][0] == {"source": "CPU:0", "target": "GPU:0", "bytes": 4000}
    assert record["transfers"] == 2


@pytest.mark.slow
def test_program(tmp_path, run_python):
    data = tmp_path / "found.json"
    program = "import runpy; runpy.run_module('benchmarks.device_traffic', run_name='__main__')"
    options = ["--step=clones", "--towers=2", "--details", f"--json={data}"]
    done = run_python(program, *options, folder=ROOT, quick=True)
    assert done.code == 0, done.err
    found = json.loads(data.read_text())["measured"]["clones"]
    assert found["rounds"] == 0
    assert found["sent"]["GPU>GPU"] == 0
    assert all(each["bytes"] > 1024 for each in found["crossings"])
