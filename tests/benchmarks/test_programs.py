"""What the benchmarks have in common: their options and tables, and runs of the small ones."""

import importlib
import json
import sys
from types import SimpleNamespace

import pytest
from absl.testing import flagsaver

from benchmarks import graph_build, harness, memory, rival_memory, rival_step
from benchmarks.checkpoint_time import __main__ as checkpoint_time
from benchmarks.kfac_step import MODELS
from benchmarks.kfac_step import __main__ as kfac_step
from benchmarks.rivals import environments
from benchmarks.tower_step import __main__ as tower_step

TIMES = [0.001, 0.002, 0.001], [0.002, 0.003, 0.004]
OPERATIONS = kfac_step.Operations(1e9, 8.7e9), kfac_step.Operations(1e9, 2.5e9)
PEAKS = {
    memory.ALONE: {memory.ALONE: [400_000_000, 500_000_000, 600_000_000]},
    "MLP": {"1 tower": [520_000_000], "2 towers": [525_000_000, 530_000_000, 535_000_000]},
}


def test_tables_have_medians_and_the_ratios_of_rounds():
    saves = {"replicate": [1.0, 3.0, 2.0], "plain Saver": [1.0, 2.0, 2.0]}
    measured = {"times": {"save": saves}, "variables": 1200, "numbers": 3}
    for lines, last in (
        (
            graph_build.lines({4: {"replicated": [2.0, 4.0], "by hand": [2.0, 2.0]}}),
            "4 3.00 [2.00, 4.00] 2.00 [2.00, 2.00] 1.50 [1.00, 2.00] 0.75",
        ),
        (memory.lines(PEAKS), "MLP, 2 towers 530 [525, 535] 30 [25, 35] 1.50"),
        (
            rival_memory.lines({"convnet": {"ours": [10**7], "tensorflow-kfac": [4 * 10**7]}}),
            "convnet 10 [10, 10] 40 [40, 40] 0.25",
        ),
        (
            rival_step.lines({"convnet": {"kfac-jax": {"momentum": TIMES[0], "kfac": TIMES[1]}}}),
            "convnet, kfac-jax 1.0 [1.0, 2.0] 3.0 [2.0, 4.0] 2.00 [1.50, 4.00]",
        ),
        (
            kfac_step.table([kfac_step.Measurement("convnet", *TIMES, *OPERATIONS)]),
            "convnet 1.0 [1.0, 2.0] 3.0 [2.0, 4.0] 2.00 [1.50, 4.00] "
            "1.00, 8.70: 8.70 1.00, 2.50: 2.50",
        ),
        (
            tower_step.lines("MLP", 2, {"times": {"replicated": TIMES[0], "by hand": TIMES[1]}}),
            "by hand 3.00 [2.00, 4.00] ms ours / this 0.50 [0.25, 0.67]",
        ),
        (
            checkpoint_time.lines("lenet", 2, measured),
            "save 2.000 [1.000, 3.000] 2.000 [1.000, 2.000] 1.00 [1.00, 1.50]",
        ),
    ):
        assert " ".join(list(lines)[-1].split()) == last


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


@pytest.mark.slow
def test_memory(run_benchmark):
    options = ["--group=MLP", "--group=K-FAC, autoencoder", "--repeats=1", "--steps=1"]
    found = run_benchmark("memory", *options)
    (alone,), mlp, kfac = found.pop(memory.ALONE).values(), *found.values()
    assert all(peak > alone[0] for peaks in mlp.values() for peak in peaks)
    # 6 layers and their inverses are at least 3 · 4 bytes · (785² + 2 · 1001² + ...).
    assert kfac["K-FAC"][0] > kfac["momentum"][0] + 30e6


def test_memory_of_rivals_is_that_beyond_tensorflow(monkeypatch):
    options = SimpleNamespace(model=["convnet"], environments="", repeats=2)
    peaks = iter(range(101, 109))
    monkeypatch.setattr(rival_memory, "FLAGS", options)
    monkeypatch.setattr(rival_memory, "commands", lambda *_: {"ours": [], "tensorflow-kfac": []})
    monkeypatch.setattr(environments, "install", lambda *_: "python")
    monkeypatch.setattr(harness, "read_json", lambda *_: {"alone": 100, "peak": next(peaks)})
    assert rival_memory.measure() == {
        "convnet, momentum": {"ours": [1, 3], "tensorflow-kfac": [2, 4]},
        "convnet, kfac": {"ours": [5, 7], "tensorflow-kfac": [6, 8]},
    }


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


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_program_runs_with_our_kfac(model):
    # This project's `kfac` takes the same arguments as the one that the program is written for.
    command = environments.command("tensorflow-kfac", sys.executable, "steps", model)
    times = harness.read_json([*command, "2", "2", "1"], "time steps")
    assert all(seconds > 0 for series in times.values() for seconds in series)
    assert {name: len(series) for name, series in times.items()} == {"momentum": 2, "kfac": 2}
