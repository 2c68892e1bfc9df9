import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from benchmarks import kfac_step, step_programs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("model", kfac_step.MODELS)
def test_sizes_are_those_of_the_model(model):
    build = {
        "convnet": step_programs.build_convnet,
        "autoencoder": step_programs.build_autoencoder,
    }[model]
    with tf.Graph().as_default():
        _, layers = build(tf.zeros([2, 28, 28, 1]))
        layers.finalize()
        found = [block.matrix_shape for block in layers.get_blocks()]
    sizes = step_programs.layer_sizes(model)
    assert found == [(size.inputs, size.outputs) for size in sizes]
    assert [size.is_first for size in sizes] == [True] + [False] * (len(sizes) - 1)


def test_operations_of_one_layer():
    counts = step_programs.operations([step_programs.LayerSize(3, 2, locations=4)], batch_size=5)
    assert counts == {
        "forward": 240,
        "backward": 480,
        "second backward": 240,
        "covariances": 520,
        "preconditioning": 60,
        "inverses": pytest.approx(3.5),
    }
    assert step_programs.momentum_operations(counts) == 720


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
    code = "import sys, benchmarks.kfac_step; print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert result.stdout == "False\n"
