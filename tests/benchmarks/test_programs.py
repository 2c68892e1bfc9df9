"""Options and tables that the benchmarks share, and runs of the small ones."""

import importlib
import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import checkpoint_time, harness, memory, rivals
from benchmarks.kfac_step import __main__ as kfac_step
from benchmarks.tower_step import __main__ as tower_step

TIMES = [0.001, 0.002, 0.001], [0.002, 0.003, 0.004]
PEAKS = {
    memory.ALONE: {memory.ALONE: [400_000_000, 500_000_000, 600_000_000]},
    "MLP": {"1 tower": [520_000_000], "2 towers": [525_000_000, 530_000_000, 535_000_000]},
}


def test_tables_have_medians_and_the_ratios_of_rounds():
    saves = {"replicate": [1.0, 3.0, 2.0], "plain Saver": [1.0, 2.0, 2.0]}
    for lines, last in (
        (memory.lines(PEAKS), "MLP, 2 towers | 530 [525, 535] | 30 [25, 35] | 1.50"),
        (
            memory.rival_lines(PEAKS, {**PEAKS, "MLP": {"2 towers": [620_000_000]}}, "rival"),
            "MLP, 2 towers | 30 [25, 35] | 120 [120, 120] | 0.25",
        ),
        (
            kfac_step.time_lines({"convnet": {"momentum": TIMES[0], "K-FAC": TIMES[1]}}, {}),
            "convnet | 1.0 [1.0, 2.0] | 3.0 [2.0, 4.0] | 2.00 [1.50, 4.00]",
        ),
        (
            [kfac_step.operation_line("convnet", {"momentum": 1e9, "K-FAC": 2.5e9})],
            "convnet, 10⁹ operations: 1.00, 2.50: 2.50",
        ),
        (
            tower_step.lines("MLP", 2, {"replicated": TIMES[0], "by hand": TIMES[1]}),
            "by hand | 3.00 [2.00, 4.00] | 0.50 [0.25, 0.67] |",
        ),
        (
            checkpoint_time.lines({"save": saves}),
            "save | 2.000 [1.000, 3.000] | 2.000 [1.000, 2.000] | 1.00 [1.00, 1.50]",
        ),
    ):
        assert " ".join(list(lines)[-1].split()).strip("| ") == last.strip("| ")


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
    commands = [main.command(name, tmp_path, "python3.11") for name in main.PLANS]
    assert all(command[:2] == [sys.executable, "-m"] for command in commands)
    run_command("-c", CHECK_OPTIONS, json.dumps([command[2:] for command in commands]))


def test_memory_of_rivals_is_measured_in_turn(monkeypatch):
    options = SimpleNamespace(repeats=2)
    peaks = iter(range(301, 309))
    monkeypatch.setattr(memory, "FLAGS", options)
    monkeypatch.setattr(harness, "given_flags", lambda *_: [])
    monkeypatch.setattr(rivals, "command_of", lambda *_: [])
    monkeypatch.setattr(harness, "read_json", lambda *_: next(peaks))
    assert memory.measure(["K-FAC, ConvNet"], rivals.NAME) == {
        memory.ALONE: {memory.ALONE: [301, 304]},
        "K-FAC, ConvNet": {"momentum": [302, 305], "K-FAC": [303, 306]},
    }


PROGRAMS = {
    "canned_kfac": ["--problem=wine", "--optimizer=Adam", "--seeds=1", "--rounds=2"],
    "checkpoint_time": ["--network=lenet", "--side=8", "--rounds=2", "--checkpoints=."],
    "device_traffic": ["--step=clones", "--towers=2", "--details"],
    "kfac_step": ["--model=convnet", "--model=resnet20", "--batch_size=2", "--repeats=1"],
    "memory": ["--group=MLP", "--group=K-FAC, autoencoder", "--repeats=1", "--steps=1"],
    "start": ["--network=resnet20", "--control_flow=v2", "--towers=2", "--repeats=1"],
    "time_to_loss": ["--steps=40", "--seeds=1"],
    "tower_step": ["--model=embedding", "--towers=2", "--rounds=2", "--block=2"],
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), PROGRAMS.items())
def test_program_measures_and_draws(name, options, run_command, tmp_path):
    data, picture = tmp_path / "found.json", tmp_path / "found.png"
    draws = name == "time_to_loss"
    outputs = [f"--json={data}", *[f"--picture={picture}"] * draws]
    options = [each.replace("=.", f"={tmp_path}") for each in options]
    run_command("-m", f"benchmarks.{name}", *outputs, *options, timeout=None)
    assert json.loads(data.read_text())["measured"]
    assert not draws or picture.stat().st_size > 5000
