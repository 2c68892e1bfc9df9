import sys
from types import SimpleNamespace

import pytest

from benchmarks import harness, rival_memory
from benchmarks.rivals import environments


def test_lines_compare_peaks_beyond_tensorflow():
    found = {"convnet, kfac": {"ours": [9_000_000, 10_000_000, 20_000_000]}}
    found["convnet, kfac"]["tensorflow-kfac"] = [40_000_000]
    _, line = rival_memory.lines(found)
    assert line.split() == ["convnet,", "kfac", "10", "[9,", "20]", "40", "[40,", "40]", "0.25"]


def test_our_and_their_processes_alternate(monkeypatch):
    options = SimpleNamespace(model=["convnet"], environments="there", repeats=2)
    cases = []

    def commands(model, optimizer, python):
        assert (model, python) == ("convnet", "python of tensorflow-kfac in there")
        return {"ours": [optimizer], "tensorflow-kfac": [optimizer]}

    def read_json(command, purpose):
        cases.append(purpose.rpartition("convnet, ")[2])
        return {"alone": 100, "peak": 100 + len(cases)}

    monkeypatch.setattr(rival_memory, "FLAGS", options)
    monkeypatch.setattr(rival_memory, "commands", commands)
    monkeypatch.setattr(harness, "read_json", read_json)
    monkeypatch.setattr(
        environments, "install", lambda name, folder: f"python of {name} in {folder}"
    )
    found = rival_memory.measure()
    assert cases[:3] == ["momentum, ours", "momentum, tensorflow-kfac", "momentum, ours"]
    assert found["convnet, momentum"] == {"ours": [1, 3], "tensorflow-kfac": [2, 4]}
    assert found["convnet, kfac"] == {"ours": [5, 7], "tensorflow-kfac": [6, 8]}


@pytest.mark.slow
def test_programs_measure_peaks_with_our_kfac():
    # 6 averages and inverses of 785² and 1001² float32 numbers in the two widest layers alone.
    code = (
        "from absl import app; from benchmarks import rival_memory\n"
        "rival_memory.define_flags(); app.run(rival_memory.main)"
    )
    options = ["--here", "--model=autoencoder", "--optimizer=kfac", "--steps=1", "--batch_size=2"]
    ours = harness.read_json([sys.executable, "-c", code, *options], "find a peak")
    numbers = ["autoencoder", "2", "1", "1", "kfac"]
    program = environments.command("tensorflow-kfac", sys.executable, "steps", *numbers)
    theirs = harness.read_json(program, "find a peak")
    for peaks in (ours, theirs):
        assert peaks["alone"] > 100e6
        assert peaks["peak"] - peaks["alone"] > 4 * 4 * (785**2 + 1001**2)
