import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kfac_step import __main__ as kfac_step

ROOT = Path(__file__).resolve().parents[3]


def test_table():
    counts = kfac_step.Operations(1e9, 8.7e9), kfac_step.Operations(1e9, 2.5e9)
    times = [0.01, 0.02, 0.03], [0.02, 0.05, 0.03]
    _, line = kfac_step.table([kfac_step.Measurement("convnet", *times, *counts)])
    assert "2.00 [1.00, 2.50]" in line
    assert line.split("]")[-1].split() == ["1.00,", "8.70:", "8.70", "1.00,", "2.50:", "2.50"]


@pytest.mark.slow
def test_program(tmp_path):
    path = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks.kfac_step", f"--json={path}", "--model=convnet"]
    subprocess.run([*command, "--batch_size=2", "--repeats=1", "--profile"], cwd=ROOT, check=True)
    (found,) = json.loads(path.read_text())["measured"]
    assert found["model"] == "convnet"
    assert len(found["kfac"]) == len(found["momentum"]) == 1


def test_help_does_not_import_tensorflow():
    code = "import sys, benchmarks.kfac_step.__main__; print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert result.stdout == "False\n"
