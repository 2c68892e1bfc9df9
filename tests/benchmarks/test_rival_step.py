import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import harness, kfac_step, rival_step
from benchmarks.rivals import environments

TIMES = {"momentum": [0.001, 0.002, 0.001], "kfac": [0.002, 0.003, 0.004]}


def test_lines_compare_with_momentum():
    _, line = rival_step.lines({"convnet": {"tensorflow-kfac": TIMES}})
    assert line.startswith("convnet, tensorflow-kfac")
    assert line.endswith("2.00 [1.50, 4.00]")


def test_failed_rival_does_not_stop_others(monkeypatch, tmp_path):
    options = SimpleNamespace(
        rival=["absent", "kfac-jax", "tensorflow-kfac"],
        environments=str(tmp_path),
        model=kfac_step.MODELS,
        batch_size=256,
        repeats=3,
        block=10,
        seconds=200.0,
        json=str(tmp_path / "found"),
        picture=None,
    )

    def install(name, folder):
        if name == "absent":
            raise harness.ChildError("no network")
        return "python"

    def read_json(command, purpose, seconds):
        assert seconds == 200
        if "kfac-jax" in purpose:
            raise harness.ChildError(purpose)
        return TIMES

    monkeypatch.setattr(rival_step, "FLAGS", options)
    monkeypatch.setattr(environments, "install", install)
    monkeypatch.setattr(harness, "read_json", read_json)
    found, troubles = rival_step.measure_all()
    assert found == {
        "convnet": {"tensorflow-kfac": TIMES},
        "autoencoder": {"tensorflow-kfac": TIMES},
    }
    assert troubles == ["no network", "time kfac-jax, autoencoder"]
    assert rival_step.main([]) == 1
    assert json.loads((tmp_path / "found").read_text())["measured"] == found


@pytest.mark.slow
@pytest.mark.parametrize("model", kfac_step.MODELS)
def test_program_runs_with_our_kfac(model):
    # This project's `kfac` takes the same arguments as the one that the program is written for.
    command = environments.command("tensorflow-kfac", sys.executable, "steps", model)
    times = harness.read_json([*command, "2", "2", "1"], "time steps")
    assert all(seconds > 0 for series in times.values() for seconds in series)
    assert {name: len(series) for name, series in times.items()} == {"momentum": 2, "kfac": 2}
