"""Programs that a program starts as `python PROGRAM` are run by the runner, too."""

import os
import sys
from pathlib import Path

import pytest

from replicate.compat.python_command import take_apart
from replicate.compat.start_python import command_of

ROOT = Path(__file__).parents[3]
PROGRAM = {"packages": ["a"], "num_towers": 2, "devices": [], "python2": True}
RUNNER = ["-m", "replicate.compat", "--package=a", "--num_towers=2", "--python2"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("train.py -c x", ([], "script", "train.py", ["-c", "x"])),
        ("-u -W ignore train.py", (["-u", "-W", "ignore"], "script", "train.py", [])),
        ("-Wignore -Xdev -", (["-Wignore", "-Xdev"], "script", "-", [])),
        ("-um part --x", (["-u"], "m", "part", ["--x"])),
        ("-mpart -u", ([], "m", "part", ["-u"])),
        ("-B -c code -u", (["-B"], "c", "code", ["-u"])),
        ("--check-hash-based-pycs never a.py", (["--check-hash-based-pycs", "never"], "script")),
        ("-V", (["-V"], "")),
    ],
)
def test_arguments_of_python_are_read_as_python_reads_them(given, expected):
    call = take_apart(given.split())
    found = (list(call.options), call.kind, call.name, list(call.arguments))
    assert found[: len(expected)] == expected


def test_own_programs_get_the_runner_and_others_plain_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.py").write_text("")
    assert command_of(["-u", "part.py", "x"], PROGRAM) == ["-u", *RUNNER, "part.py", "x"]
    assert command_of(["-m", "part", "-u"], PROGRAM) == [*RUNNER, "-m", "part", "-u"]
    assert command_of(["-m", "a.b"], PROGRAM) == [*RUNNER, "-m", "a.b"]
    tool = os.path.join(os.path.dirname(sys.executable), "pytest")
    for other in (["-m", "json.tool"], ["-c", "1"], ["nothing.py"], ["-"], [], ["-m", "pytest"]):
        assert command_of(other, PROGRAM) == other
    assert not os.path.exists(tool) or command_of([tool], PROGRAM) == [tool]


PARENT = """
import multiprocessing, os, subprocess, sys

def tell(at):
    os.system(f"python child.py {at}")

if __name__ == "__main__":
    call = [sys.executable, "-u", "child.py", "a b"]
    assert subprocess.call(call, env={}) == 3
    os.system("cd / && nohup python2 $OLDPWD/child.py shell 2> /dev/null")
    subprocess.call(["sh", "-c", "python -m child module"])
    os.system("python -c 'import sys; print(sys.path[0])'")
    for method in ("forkserver", "spawn"):
        process = multiprocessing.get_context(method).Process(target=tell, args=(method,))
        process.start()
        process.join()
"""
CHILD = """
import sys
import numpy as np
print(sys.argv[1:], np.float is float, flush=True)
sys.exit(3)
"""
START = """
import os, sys
from replicate.compat import run
sys.path[:] = [each for each in sys.path if each != os.environ.get("HERE")]
before = sys.executable, dict(os.environ)
run("parent.py")
assert before == (sys.executable, dict(os.environ))
"""


def test_children_by_subprocess_shell_and_multiprocessing_have_the_runner(tmp_path, run_python):
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "child.py").write_text(CHILD)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run_python(START, folder=tmp_path, environment={"TMPDIR": str(temporary)})
    told = ["a b", "shell", "module", "", "forkserver", "spawn"]
    expected = [f"['{each}'] True" if each else "" for each in told]
    assert done.out.splitlines() == expected, done.err
    assert not list(temporary.glob("replicate-compat-*"))
