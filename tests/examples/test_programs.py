"""All programs answer --help at once, and the README's programs run as they stand."""

import ast
import pathlib
import re
import runpy

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if re.search(r"^    (cli.run\(main\)|program.run\(PROGRAM\))$", path.read_text(), re.M)
)
# Prints the help of all programs, in one process.
PROBE = """
import runpy, sys
from absl.testing import flagsaver
from examples import cli  # Its flag --help outlives the programs.
programs = sys.argv[1:]
for name in programs:
    sys.argv = ["program", "--help"]
    try:
        with flagsaver.flagsaver():
            runpy.run_module(f"examples.{name}", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print("END", end.code, sorted({"tensorflow", "sklearn", "matplotlib"} & set(sys.modules)))
"""
ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIT, PROGRAM = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_help_prints_the_docstring_and_loads_nothing_heavy(run_command):
    assert {"convnet", "mlp", "autoencoder", "rnn", "gan", "legacy.lstm_text"} <= set(PROGRAMS)
    *texts, rest = run_command("-c", PROBE, *PROGRAMS).stdout.split("END 0 []\n")
    assert rest == ""
    for program, text in zip(PROGRAMS, texts, strict=True):
        path = FOLDER / f"{program.replace('.', '/')}.py"
        about = ast.get_docstring(ast.parse(path.read_text()))
        assert text.startswith(about.partition("\n")[0]), program
        assert f"python -m examples.{program}" in about
        assert text.count("\n  --") >= 3, program


AVERAGE = "model_average --train_steps=10 --interval_steps=5"


@pytest.mark.parametrize(
    ("command", "shown", "accuracy"),
    [
        (f"{AVERAGE} --optimizer=momentum --num_towers=2", "2 towers", 0.9),
        pytest.param(f"{AVERAGE} --optimizer=kfac", "2 towers", 0.9, marks=pytest.mark.slow),
        pytest.param("rnn --train_steps=40", "kron_series_2", 0.8, marks=pytest.mark.broad),
        pytest.param(
            "bring_your_own_optimizer --train_steps=80", "2 towers", 0.92, marks=pytest.mark.broad
        ),
    ],
)
def test_program_reaches_an_accuracy(run_program, tmp_path, command, shown, accuracy):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    model_dir = f"--model_dir={tmp_path}"
    done = run_program(*command.split(), model_dir, "--eval_every_steps=80", "--progress=off")
    assert done.code == 0, done.err
    assert shown in done.out
    assert done.number("test accuracy") >= accuracy


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_average_of_a_cluster_learns_the_digits(run_cluster, tmp_path):
    pytest.importorskip("sklearn")
    flags = f"--model_dir={tmp_path} --num_towers=1 --train_steps=30 --progress=log"
    printed = run_cluster("model_average", flags.split())
    (accuracy,) = re.findall(r"^test accuracy +(\S+)$", printed["chief"], re.MULTILINE)
    assert float(accuracy) >= 0.95


def run_program_of_readme(text, folder, monkeypatch):
    """Runs a program in a folder of its own; its global variables."""
    monkeypatch.chdir(folder)
    (folder / "program.py").write_text(text)
    return runpy.run_path(str(folder / "program.py"), run_name="__main__")


def test_program_of_the_readme_trains(tmp_path, monkeypatch, capsys):
    run_program_of_readme(PROGRAM, tmp_path, monkeypatch)
    assert (tmp_path / "runs/readme/model.ckpt-200.index").exists()
    losses = [float(loss) for loss in re.findall(r"loss ([\d.e+-]+)", capsys.readouterr().err)]
    assert losses[-1] < 1.0


@pytest.mark.slow  # `make build` runs it on the wheel.
def test_program_of_the_readme_fits_as_it_says(tmp_path, monkeypatch, capsys):
    run_program_of_readme(FIT, tmp_path, monkeypatch)
    results = [
        [float(number) for number in re.findall(r"accuracy: (\S+) - loss: ([\d.]+)", text)[-1]]
        for text in (README, capsys.readouterr().out)
    ]
    np.testing.assert_allclose(*results, atol=0.01)


def test_readme_and_its_program_are_short():
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 15
    assert README.count("\n") <= 120
