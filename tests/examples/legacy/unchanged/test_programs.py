"""Programs of 2017 to 2019 run without a changed line, on one tower and on two."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.compat.table import row_of

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "examples" / "legacy" / "unchanged"

STEPS = 60
PROGRAMS = {
    "slim_2017": (["--train_steps"], "--model_dir", "tf_slim", 0.8),
    "tpu_2018": (["--num_train_steps"], "--output_dir", "tf_keras", 0.5),
    "distribute_2019": (["--train_steps"], "--model_dir", "tf_keras", 0.6),
}


def run(name, folder, *options):
    """Runs a program; returns what it printed and its standard error."""
    steps, directory, needed, _ = PROGRAMS[name]
    for package in (needed, "sklearn"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if name != "distribute_2019" and row_of("tf.contrib.layers.layer_norm").new is None:
        pytest.skip("tf.contrib.layers is not there yet")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "replicate.compat", *options),
            *(FOLDER / f"{name}.py", f"{directory}={folder}"),
            *(f"{flag}={STEPS}" for flag in steps),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.timeout(220)
@pytest.mark.parametrize("towers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_learns(name, towers, tmp_path):
    printed, log = run(name, tmp_path, f"--num_towers={towers}")
    [accuracy] = re.findall(r"accuracy = (\S+)", printed)
    assert float(accuracy) >= PROGRAMS[name][-1]
    devices = ", ".join(["/device:CPU:0"] * towers)
    assert f"mode 'train'. Towers: {devices}. Variables: /device:CPU:0." in log


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_know_this_project(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert "import tensorflow as tf\n" in text
    assert not re.search("replicate|kfac|model_deploy|compat", text)
