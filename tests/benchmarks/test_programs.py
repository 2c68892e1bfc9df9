"""Small benchmarks: each runs, and prints what it says."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from absl.testing import flagsaver

from benchmarks import graph_build, harness, kfac_step, memory, rival_memory, rival_step
from benchmarks.rivals import environments

ROOT = Path(__file__).resolve().parents[2]
ALONE = {memory.ALONE: {memory.ALONE: [400_000_000, 500_000_000, 600_000_000]}}
TIMES = {"momentum": [0.001, 0.002, 0.001], "kfac": [0.002, 0.003, 0.004]}


def test_lines_show_the_time_per_tower():
    head, line = graph_build.lines({4: {"replicated": [2.0, 4.0], "by hand": [2.0, 2.0]}})
    assert head.split()[-3:] == ["s", "per", "tower"]
    assert "1.50 [1.00, 2.00]" in line
    assert line.endswith(" 0.75")


def test_graph_build(tmp_path, monkeypatch):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    options = ["--network=lenet", "--towers=1", "--towers=2", "--repeats=1"]
    outputs = [f"--json={data}", f"--picture={picture}"]
    monkeypatch.setattr(harness, "divide_cpu", lambda _: None)  # The tests have divided it.
    with flagsaver.flagsaver():
        graph_build.define_flags()
        graph_build.FLAGS(["program", *options, *outputs])
        graph_build.main([])
    found = json.loads(data.read_text())["measured"]
    assert list(found) == ["1", "2"]
    assert all(len(times) == 1 for ways in found.values() for times in ways.values())
    assert picture.stat().st_size > 5000


main = importlib.import_module("benchmarks.__main__")


# Lets all benchmarks check their options, in one process.
CHECK_OPTIONS = """
import json, runpy, sys
from absl import app
from absl.testing import flagsaver
app.define_help_flags()  # They outlive the flags of the benchmarks.
for module, *options in json.loads(sys.argv[1]):
    sys.argv[1:] = [*options, "--only_check_args"]
    try:
        with flagsaver.flagsaver():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, module
"""


def test_benchmarks_accept_their_planned_options(tmp_path, run_command):
    commands = [main.command(main.PLANS[name], name, tmp_path, "python3.11") for name in main.PLANS]
    assert all(command[:2] == [sys.executable, "-m"] for command in commands)
    run_command("-c", CHECK_OPTIONS, json.dumps([command[2:] for command in commands]))


def test_failed_benchmark_does_not_stop_others(tmp_path, monkeypatch, capfd):
    plans = {"absent": main.Plan("no_such_module", 1), "old": main.Plan("x", 1, on_tf215=True)}
    monkeypatch.setattr(main, "PLANS", plans)
    outcomes = main.run_all(list(plans), tmp_path, str(tmp_path / "python"))
    assert outcomes["absent"].trouble.startswith("exit code 1")
    assert "no_such_module" in (tmp_path / "absent.log").read_text()
    assert "make .venv-tf215" in outcomes["old"].trouble
    printed = capfd.readouterr().out
    assert "== absent" in printed
    assert "== old" in printed
    *_, total = main.lines({"a": main.Outcome(20.0, ""), "b": main.Outcome(1.0, "stopped")})
    assert total.split() == ["21", "s"]


def test_lines_of_memory_subtract_tensorflow_and_compare_with_first_case():
    peaks = {"1 tower": [520_000_000], "2 towers": [525_000_000, 530_000_000, 535_000_000]}
    _, alone, one, two = memory.lines(ALONE | {"MLP": peaks})
    assert alone.split() == ["TensorFlow", "alone", "500", "[400,", "600]"]
    assert one.endswith("20 [20, 20]    1.00")
    assert two.endswith("30 [25, 35]    1.50")
    found = memory.cases(["MLP", "K-FAC, ConvNet"])
    assert found[memory.ALONE] == (memory.ALONE,)
    assert found["MLP"] == ("1 tower", "2 towers", "4 towers")
    assert found["K-FAC, ConvNet"] == ("momentum", "K-FAC")


@pytest.mark.slow
def test_memory(run_benchmark):
    options = ["--group=MLP", "--group=K-FAC, autoencoder", "--repeats=1", "--steps=1"]
    found = run_benchmark("memory", *options)
    (alone,), mlp, kfac = found.pop(memory.ALONE).values(), *found.values()
    assert all(peak > alone[0] for peaks in mlp.values() for peak in peaks)
    # 6 layers and their inverses are at least 3 · 4 bytes · (785² + 2 · 1001² + ...).
    assert kfac["K-FAC"][0] > kfac["momentum"][0] + 30e6


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
    peaks = {"ours": [9_000_000, 10_000_000, 20_000_000], "tensorflow-kfac": [40_000_000]}
    _, line = rival_memory.lines({"convnet, kfac": peaks})
    assert line.split() == ["convnet,", "kfac", "10", "[9,", "20]", "40", "[40,", "40]", "0.25"]


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


def test_failed_rival_does_not_stop_others(monkeypatch, tmp_path, capsys):
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
    _, _, line = capsys.readouterr().out.partition("\nconvnet, tensorflow-kfac")
    assert line.partition("\n")[0].endswith("2.00 [1.50, 4.00]")


@pytest.mark.slow
@pytest.mark.parametrize("model", kfac_step.MODELS)
def test_program_runs_with_our_kfac(model):
    # This project's `kfac` takes the same arguments as the one that the program is written for.
    command = environments.command("tensorflow-kfac", sys.executable, "steps", model)
    times = harness.read_json([*command, "2", "2", "1"], "time steps")
    assert all(seconds > 0 for series in times.values() for seconds in series)
    assert {name: len(series) for name, series in times.items()} == {"momentum": 2, "kfac": 2}
