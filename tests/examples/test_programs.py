"""All programs answer --help at once, and the README's program runs as it stands."""

import ast
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if re.search(r"^    (cli.run\(main\)|program.run\(PROGRAM\))$", path.read_text(), re.M)
)
PROBE = """
import runpy, sys
sys.argv = ["program", "--help"]
try:
    runpy.run_module({name!r}, run_name="__main__", alter_sys=True)
except SystemExit as end:
    print("END", end.code, sorted({{"tensorflow", "sklearn", "matplotlib"}} & set(sys.modules)))
"""
ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAM, KFAC = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_programs_are_found():
    assert {"convnet", "mlp", "autoencoder", "rnn", "gan", "legacy.lstm_text"} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_prints_the_docstring_and_loads_nothing_heavy(program):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(name=f"examples.{program}")],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("END 0 []\n")
    path = FOLDER / f"{program.replace('.', '/')}.py"
    about = ast.get_docstring(ast.parse(path.read_text()))
    assert done.stdout.startswith(about.partition("\n")[0])
    assert f"python -m examples.{program}" in about
    assert done.stdout.count("\n  --") >= 3


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("argument", ["--no_such_flag=1", "stray"])
def test_a_wrong_argument_is_answered_with_one_line_and_exit_code_2(run_program, program, argument):
    done = run_program(program, argument)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert argument.strip("-").partition("=")[0] in done.err


def with_kfac():
    """The program, its optimizer replaced by the README's second block."""
    (line,) = re.findall(r"    optimizer = .*\n", PROGRAM)
    return "import kfac\n" + PROGRAM.replace(line, KFAC)


def test_program_trains_and_leaves_a_checkpoint(tmp_path, run_python):
    done = run_python(PROGRAM, folder=tmp_path)
    assert done.code == 0, done.err
    check_run(tmp_path, done.err)


def test_program_trains_with_kfac(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(with_kfac())
    runpy.run_path(str(tmp_path / "program.py"), run_name="__main__")
    check_run(tmp_path, capsys.readouterr().err)


def check_run(folder, progress):
    assert (folder / "runs/readme/model.ckpt-200.index").exists()
    losses = [float(loss) for loss in re.findall(r"loss ([\d.e+-]+)", progress)]
    assert losses[-1] < 1.0


def test_program_is_at_most_15_lines():
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 15


def test_readme_is_at_most_120_lines():
    assert README.count("\n") <= 120
