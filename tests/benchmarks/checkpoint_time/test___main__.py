import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checkpoint_time import __main__ as checkpoint_time

ROOT = Path(__file__).resolve().parents[3]


def test_lines_compare_rounds():
    save = {"replicate": [1.0, 3.0, 2.0], "plain Saver": [1.0, 2.0, 2.0]}
    found = {"times": {"save": save}, "variables": 1200, "numbers": 3}
    head, _, line = checkpoint_time.lines("lenet", 2, found)
    assert "1,200 variables" in head
    assert line.startswith("save")
    assert line.endswith("1.00 [1.00, 1.50]")


@pytest.mark.slow
def test_program(tmp_path):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--network=lenet", "--side=8", "--rounds=2", f"--checkpoints={tmp_path}"]
    outputs = [f"--json={data}", f"--picture={picture}"]
    command = [sys.executable, "-m", "benchmarks.checkpoint_time", *options, *outputs]
    subprocess.run(command, cwd=ROOT, check=True)
    times = json.loads(data.read_text())["measured"]["times"]
    assert list(times) == list(checkpoint_time.OPERATIONS)
    assert all(len(seconds) == 2 for ways in times.values() for seconds in ways.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json", "found.png"]
