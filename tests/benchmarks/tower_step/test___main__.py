import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tower_step import __main__ as tower_step

ROOT = Path(__file__).resolve().parents[3]


def test_lines_compare_with_other_ways():
    times = {way: [0.002, 0.004] for way in tower_step.WAYS} | {"by hand": [0.004, 0.004]}
    first, ours, by_hand, *_, largest = tower_step.lines(
        "MLP", 2, {"times": times, "largest_tensor": {"replicated": 1.5e6}}
    )
    assert first == "MLP, towers: 2"
    assert ours.split() == ["replicated", "3.00", "[2.00,", "4.00]", "ms"]
    assert by_hand.endswith("ours / this 0.75 [0.50, 1.00]")
    assert largest.endswith("1.5 MB, the largest tensor")


@pytest.mark.slow
def test_program(tmp_path):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--model=embedding", "--towers=2", "--rounds=2", "--block=2", "--batch_size=8"]
    outputs = [f"--json={data}", f"--picture={picture}"]
    command = [sys.executable, "-m", "benchmarks.tower_step", *options, *outputs]
    subprocess.run(command, cwd=ROOT, check=True)
    found = json.loads(data.read_text())["measured"]["embedding\n2 towers"]
    assert list(found["times"]) == list(tower_step.WAYS)
    assert found["largest_tensor"]["replicated"] < found["largest_tensor"]["by hand"]
    assert picture.stat().st_size > 5000
