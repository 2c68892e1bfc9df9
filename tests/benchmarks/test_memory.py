import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import memory

ROOT = Path(__file__).resolve().parents[2]
ALONE = {memory.ALONE: {memory.ALONE: [400_000_000, 500_000_000, 600_000_000]}}


def test_lines_subtract_tensorflow_and_compare_with_first_case():
    peaks = {"1 tower": [520_000_000], "2 towers": [525_000_000, 530_000_000, 535_000_000]}
    _, alone, one, two = memory.lines(ALONE | {"MLP": peaks})
    assert alone.split() == ["TensorFlow", "alone", "500", "[400,", "600]"]
    assert one.endswith("20 [20, 20]    1.00")
    assert two.endswith("30 [25, 35]    1.50")


def test_cases_are_towers_or_optimizers():
    found = memory.cases(["MLP", "K-FAC, ConvNet"])
    assert found[memory.ALONE] == (memory.ALONE,)
    assert found["MLP"] == ("1 tower", "2 towers", "4 towers")
    assert found["K-FAC, ConvNet"] == ("momentum", "K-FAC")


@pytest.mark.slow
def test_program(tmp_path):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--group=MLP", "--group=K-FAC, autoencoder", "--repeats=1", "--steps=1"]
    outputs = [f"--json={data}", f"--picture={picture}"]
    command = [sys.executable, "-m", "benchmarks.memory", *options, *outputs]
    subprocess.run(command, cwd=ROOT, check=True)
    found = json.loads(data.read_text())["measured"]
    (alone,), mlp, kfac = found.pop(memory.ALONE).values(), *found.values()
    assert all(peak > alone[0] for peaks in mlp.values() for peak in peaks)
    # 6 layers and their inverses are at least 3 · 4 bytes · (785² + 2 · 1001² + ...).
    assert kfac["K-FAC"][0] > kfac["momentum"][0] + 30e6
    assert picture.stat().st_size > 5000
