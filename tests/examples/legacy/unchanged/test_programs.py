"""Programs of 2017 to 2019 run without a changed line, on one tower and on two."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.migrate.__main__ import main as migrate

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "examples" / "legacy" / "unchanged"

STEPS = 60
PROGRAMS = {
    "slim_2017": (["--train_steps"], "--model_dir", ("tf_slim", "tf_keras"), 0.8),
    "tpu_2018": (["--num_train_steps"], "--output_dir", ("tf_slim", "tf_keras"), 0.5),
    "distribute_2019": (["--train_steps"], "--model_dir", (), 0.6),
}


def run(name, folder, *start):
    """Runs a program as `python START`; returns what it printed and its standard error."""
    steps, directory, needed, _ = PROGRAMS[name]
    for package in (*needed, "sklearn"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [
            *(sys.executable, *start, f"{directory}={folder}/model"),
            *(f"{flag}={STEPS}" for flag in steps),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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
    runner = ("-m", "replicate.compat", f"--num_towers={towers}")
    printed, log = run(name, tmp_path, *runner, FOLDER / f"{name}.py")
    assert accuracy_of(printed) >= PROGRAMS[name][-1]
    devices = ", ".join(["/device:CPU:0"] * towers)
    assert f"mode 'train'. Towers: {devices}. Variables: /device:CPU:0." in log


@pytest.mark.timeout(220)
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_migrated_program_learns(name, tmp_path):
    migrated = tmp_path / f"{name}.py"
    migrated.write_text((FOLDER / migrated.name).read_text())
    assert migrate(["--write", str(migrated)]) == 0
    assert migrated.read_text() != (FOLDER / migrated.name).read_text()
    printed, _ = run(name, tmp_path, migrated)
    assert accuracy_of(printed) >= PROGRAMS[name][-1]


def accuracy_of(printed):
    [accuracy] = re.findall(r"accuracy = (\S+)", printed)
    return float(accuracy)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_know_this_project(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert "import tensorflow as tf\n" in text
    assert not re.search("replicate|kfac|model_deploy|compat", text)
