import json
import math

import pytest
from absl.testing import flagsaver

from benchmarks import harness, rivals
from benchmarks.time_to_loss import __main__ as time_to_loss
from benchmarks.time_to_loss import loss_programs, loss_race, race_settings
from benchmarks.time_to_loss.race_settings import Problem


def curve(optimizer, setting, losses, seed=1, problem="autoencoder"):
    block = race_settings.BLOCK[optimizer]
    steps = [block * index for index in range(len(losses))]
    return loss_race.Run(
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
        *(curve("kfac growing", 0.1, [9.0, 1.0, 0.5], seed) for seed in (1, 2)),
    ]


def test_results_choose_best_settings(curves):
    found = loss_race.results(curves)
    assert list(found) == list(race_settings.SETTINGS)
    settings = {name: result.curves[0].setting for name, result in found.items()}
    # Momentum reaches Adam's lowest loss with neither setting, and comes closer with the first.
    tuned = {"momentum": 0.1, "adam": 0.2, "kfac fixed": 0.1, "kfac": 0.2}
    assert settings == tuned | {"kfac growing": 0.1}
    assert found["adam"].steps == [40, 40]
    assert found["kfac"].steps == [5, 5]
    assert found["kfac fixed"].steps == [math.inf, 10]
    assert found["momentum"].steps == [math.inf, math.inf]

    # A subset of the optimizers will do.
    runs = [run for run in curves if run.optimizer in ("adam", "kfac")]
    found = loss_race.results(runs)
    assert list(found) == ["adam", "kfac"]
    assert found["kfac"].steps == [5, 5]


@pytest.mark.parametrize("fails", [True, False])
def test_rival_races_beside_ours_or_fails_alone(fails, curves, tmp_path, monkeypatch):
    data, picture, commands = tmp_path / "found.json", tmp_path / "found.png", []
    options = ["--rival=tensorflow-kfac", "--rival_seeds=2", "--steps=80", "--problem=autoencoder"]

    def read_json(command, *_):
        commands.append(command)
        if fails:
            raise harness.ChildError("no network")
        lost = {"adam": [9.0, 4.0], "kfac": [9.0, 2.0]}
        return [curve(name, 0.1, lost[name], len(commands))._asdict() for name in lost]

    monkeypatch.setattr(time_to_loss, "race_ours", lambda problem: curves)
    monkeypatch.setattr(rivals, "install", lambda *_: "python")
    monkeypatch.setattr(loss_race, "write_weights", lambda *_: None)
    monkeypatch.setattr(harness, "read_json", read_json)
    with flagsaver.flagsaver():
        time_to_loss.define_flags()
        time_to_loss.FLAGS(["program", *options, f"--json={data}", f"--picture={picture}"])
        assert time_to_loss.main([]) == fails
    found = json.loads(data.read_text())["measured"]
    counts = {name: len(runs) for name, runs in found.items()}
    assert counts == {"ours": len(curves), "tensorflow-kfac": 0 if fails else 2 * 2}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert all({"--problem=autoencoder", "--steps=80"} <= set(each) for each in commands)


def test_batches_grow(monkeypatch):
    monkeypatch.setattr(loss_programs, "UNITS", (8, 2))
    monkeypatch.setattr(loss_programs, "WARM_UP", 0)
    monkeypatch.setattr(loss_programs, "GROWTH", 2.0)
    monkeypatch.setattr(loss_programs, "LARGEST_BATCH", 1024)
    sizes, draw = [], loss_programs._draw

    def noted(data, seed, size):
        sizes.append(size)
        return draw(data, seed, size)

    monkeypatch.setattr(loss_programs, "_draw", noted)
    usual, program = (
        loss_programs.Program(Problem("autoencoder"), name, 0.1, seed=3)
        for name in ("kfac", "kfac growing")
    )
    before = program.loss()
    assert before == pytest.approx(usual.loss(), rel=1e-6)
    usual.close()
    found = []
    for _ in range(3):
        found.append(program._session.run(sizes[-1]))
        program.run(1)
    assert found == [512, int(512 * math.exp(0.5)), 1024]
    assert program.loss() < before
    program.close()
