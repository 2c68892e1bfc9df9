"""Programs of 2017 to 2019 run without a changed line, on one tower and on two."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicate.migrate.__main__ import main as migrate

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "examples" / "legacy" / "unchanged"

STEPS = 60
PROGRAMS = {
    "slim_2017": (["--train_steps"], "--model_dir", ("tf_slim",), 0.8),
    "tpu_2018": (["--num_train_steps"], "--output_dir", ("tf_slim",), 0.5),
    "distribute_2019": (["--train_steps"], "--model_dir", (), 0.6),
}


def flags_of(name, folder):
    """The flags of a short run of a program; the test is skipped where a package is missing."""
    steps, directory, needed, _ = PROGRAMS[name]
    for package in (*needed, "sklearn"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return [f"{directory}={folder}/model", *(f"{flag}={STEPS}" for flag in steps)]


@pytest.mark.timeout(220)
@pytest.mark.parametrize("towers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_learns(run_tensorflow1, name, towers, tmp_path):
    program = (f"--num_towers={towers}", FOLDER / f"{name}.py", *flags_of(name, tmp_path))
    done = run_tensorflow1(ROOT, *program, timeout=200)
    assert accuracy_of(done.out) >= PROGRAMS[name][-1]
    devices = ", ".join(["/device:CPU:0"] * towers)
    assert f"mode 'train'. Towers: {devices}. Variables: /device:CPU:0." in done.err


@pytest.mark.timeout(220)
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_migrated_program_learns(run_command, name, tmp_path):
    migrated = tmp_path / f"{name}.py"
    migrated.write_text((FOLDER / migrated.name).read_text())
    assert migrate(["--write", str(migrated)]) == 0
    assert migrated.read_text() != (FOLDER / migrated.name).read_text()
    done = run_command(migrated, *flags_of(name, tmp_path), timeout=200)
    assert accuracy_of(done.stdout) >= PROGRAMS[name][-1]


def accuracy_of(printed):
    [accuracy] = re.findall(r"accuracy = (\S+)", printed)
    return float(accuracy)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_know_this_project(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert "import tensorflow as tf\n" in text
    assert not re.search("replicate|kfac|model_deploy|compat", text)
