"""All programs answer --help at once, and a mistake with one line."""

import ast
import pathlib
import re
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
