import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import harness
from benchmarks.rivals import environments
from benchmarks.time_to_loss import __main__ as time_to_loss
from benchmarks.time_to_loss import loss_curves, loss_programs, loss_race

ROOT = Path(__file__).resolve().parents[3]


def curve(optimizer, setting, losses, seed=1, problem="autoencoder"):
    block = loss_race.BLOCK[optimizer]
    steps = [block * index for index in range(len(losses))]
    return loss_race.Curve(
        problem, optimizer, setting, seed, steps, [0.01 * step for step in steps], losses
    )


@pytest.fixture
def curves():
    return [
        *(curve("adam", 0.1, [9.0, 4.0, 3.0], seed) for seed in (1, 2)),
        *(curve("adam", 0.2, [9.0, 2.0 + seed / 4, 5.0], seed) for seed in (1, 2)),
        *(curve("momentum", 0.1, [9.0, 6.0, 5.0], seed) for seed in (1, 2)),
        *(curve("momentum", 0.2, [9.0, 7.0, math.nan], seed) for seed in (1, 2)),
        *(curve("kfac", 0.1, [9.0, 4.0, 2.25], seed) for seed in (1, 2)),
        *(curve("kfac", 0.2, [9.0, 2.25, 2.0], seed) for seed in (1, 2)),
        *(curve("kfac fixed", 0.1, [9.0, 8.0, 2.4], seed) for seed in (1, 2)),
    ]


def test_curve_reaches_a_loss():
    found = curve("kfac", 0.1, [math.nan, 4.0, 3.0, 3.5])
    assert found.lowest == 3.0
    assert found.reaches(4.0) == (5, pytest.approx(0.05))
    assert found.reaches(3.2) == (10, pytest.approx(0.1))
    assert found.reaches(2.9) == (math.inf, math.inf)
    assert curve("kfac", 0.1, [math.nan, math.inf]).lowest == math.inf


def test_results_choose_best_settings(curves):
    found = loss_race.results(curves)
    assert list(found) == list(loss_race.SETTINGS)
    settings = {name: result.curves[0].setting for name, result in found.items()}
    # Momentum reaches Adam's lowest loss with neither setting, and comes closer with the first.
    assert settings == {"momentum": 0.1, "adam": 0.2, "kfac fixed": 0.1, "kfac": 0.2}
    assert found["adam"].steps == [40, 40]
    assert found["kfac"].steps == [5, 5]
    assert found["kfac fixed"].steps == [math.inf, 10]
    assert found["momentum"].steps == [math.inf, math.inf]


def test_results_accept_a_subset_of_optimizers(curves):
    runs = [run for run in curves if run.optimizer in ("adam", "kfac")]
    found = loss_race.results(runs)
    assert list(found) == ["adam", "kfac"]
    assert found["kfac"].steps == [5, 5]


def test_failed_rival_does_not_stop_other_races(curves, tmp_path, monkeypatch, capsys):
    options = SimpleNamespace(
        problem=["autoencoder", "convnet"],
        rival=["kfac-jax", "tensorflow-kfac"],
        environments=str(tmp_path),
        rival_seeds=2,
        seconds=200.0,
        steps=80,
        json=str(tmp_path / "found.json"),
        picture=str(tmp_path / "found.png"),
    )
    theirs = [run for run in curves if run.optimizer in ("adam", "kfac")]

    def install(name, folder):
        if name == "kfac-jax":
            raise harness.ChildError("no network")
        return folder

    def race(name, python, problem, seed, steps, seconds):
        assert (name, python, steps, seconds) == ("tensorflow-kfac", str(tmp_path), 80, 200.0)
        return [run._replace(problem=problem) for run in theirs if run.seed == seed]

    monkeypatch.setattr(time_to_loss, "FLAGS", options)
    monkeypatch.setattr(time_to_loss, "race_ours", lambda problem: curves)
    monkeypatch.setattr(environments, "install", install)
    monkeypatch.setattr(loss_race, "race_rival", race)
    assert time_to_loss.main([]) == 1
    printed = capsys.readouterr().out
    assert printed.count("no network") == 1  # kfac-jax does not train the ConvNet
    assert printed.count("tensorflow-kfac\n") == 2
    found = json.loads(Path(options.json).read_text())["measured"]
    counts = {name: len(runs) for name, runs in found.items()}
    assert counts == {
        "ours": 2 * len(curves),
        "kfac-jax": 0,
        "tensorflow-kfac": 2 * len(theirs),
    }
    assert Path(options.picture).read_bytes().startswith(b"\x89PNG")


def test_table(curves):
    lines = list(loss_race.table("autoencoder", loss_race.results(curves)))
    momentum, adam, fixed, adaptive = lines[1:]
    assert "– [–, –]" in momentum
    assert "2.38 [2.25, 2.5]" in adam
    assert "– [10, –]" in fixed
    assert adaptive.endswith("0.125 [0.125, 0.125]")


def test_picture(curves, tmp_path):
    path = tmp_path / "curves.png"
    found = loss_race.results(curves)
    loss_curves.draw({"autoencoder": found, "convnet": found}, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("problem", "names"),
    [("autoencoder", ("adam", "kfac")), ("convnet", ("momentum", "kfac fixed"))],
)
def test_programs_start_equal_and_learn(monkeypatch, problem, names):
    monkeypatch.setattr(loss_programs, "ENCODER", (64, 8, 2))
    monkeypatch.setattr(loss_programs, "WARM_UP", 1)
    settings = next(loss_race.grid(problem))
    programs = [loss_programs.Program(problem, name, settings[name], seed=3) for name in names]
    before = [program.loss() for program in programs]
    np.testing.assert_allclose(before[0], before[1], rtol=1e-5)
    for program in programs:
        assert program.run(5) > 0
        assert program.loss() < before[0]
        program.close()


@pytest.mark.slow
def test_program(tmp_path):
    path, picture = tmp_path / "found.json", tmp_path / "curves.png"
    command = [sys.executable, "-m", "benchmarks.time_to_loss", f"--json={path}", "--steps=40"]
    subprocess.run([*command, "--seeds=1", f"--picture={picture}"], cwd=ROOT, check=True)
    found = json.loads(path.read_text())["measured"]["ours"]
    runs = {(run["problem"], run["optimizer"], run["setting"]) for run in found}
    assert len(runs) == len(found) == 2 * 4 * 3
    assert picture.exists()


def test_help_does_not_import_tensorflow():
    code = "import sys, benchmarks.time_to_loss.__main__; print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert result.stdout == "False\n"
