import json
import math
import sys
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.rivals import environments
from benchmarks.time_to_loss import loss_programs, loss_race


@pytest.mark.parametrize(
    ("name", "problem"),
    [(name, problem) for name, rival in environments.RIVALS.items() for problem in rival.models],
)
def test_rivals_have_as_many_settings_and_the_same_adam(name, problem):
    ours, theirs = list(loss_race.grid(problem)), list(loss_race.rival_grid(name, problem))
    assert [settings["adam"] for settings in theirs] == [settings["adam"] for settings in ours]
    assert len({settings["kfac"] for settings in theirs}) == len({s["kfac"] for s in ours})


@pytest.mark.parametrize(
    "problem", ["convnet", pytest.param("autoencoder", marks=pytest.mark.slow)]
)
def test_rivals_have_the_same_weights_and_batches(problem, monkeypatch, run_python):
    def run_in_fork(command, *_):
        program, *arguments = command[3:]
        code = f"import runpy, sys; sys.path[0] = {str(Path(program).parent)!r}; "
        done = run_python(code + f"runpy.run_path({program!r}, run_name='__main__')", *arguments)
        assert done.code == 0, done.err
        return json.loads(done.out.splitlines()[-1])

    monkeypatch.setattr(harness, "read_json", run_in_fork)
    # This project's `kfac` takes the same arguments as the one that the program is written for.
    name = "tensorflow-kfac"
    monkeypatch.setattr(loss_race, "DAMPING", {name: {problem: (0.1,)}})
    monkeypatch.setitem(loss_race.SETTINGS["adam"], problem, (0.01,))
    monkeypatch.setitem(loss_race.BLOCK, "adam", 4)
    adam, kfac = loss_race.race_rival(name, sys.executable, problem, 3, steps=8, seconds=600)
    assert adam._replace(seconds=[], losses=[]) == loss_race.Curve(
        problem, "adam", 0.01, 3, [0, 4, 8], [], []
    )
    assert kfac.steps == [0, 5, 10]
    assert kfac.losses[0] == adam.losses[0] > adam.losses[-1]
    assert math.isfinite(kfac.losses[-1])

    ours = loss_programs.Program(problem, "adam", 0.01, 3)
    losses = [ours.loss()]
    for _ in range(2):
        ours.run(4)
        losses.append(ours.loss())
    ours.close()
    assert adam.losses == pytest.approx(losses, rel=1e-4)
