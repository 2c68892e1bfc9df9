"""oneDNN: programs turn it on before TensorFlow is imported, libraries never do."""

import platform

import pytest

from replicate import onednn

SHOWS_CHOICE = f"import os, sys\nprint('chosen', os.environ.get({onednn.VARIABLE!r}))\nsys.exit()\n"
PROGRAMS = {
    "run": ("-m", "replicate.run", "program.py"),
    "compat": ("-m", "replicate.compat", "program.py"),
    "launch": ("-m", "replicate.launch", "--workers=1", "--ps=0", "--", "python", "program.py"),
    "examples": ("-c", "from examples import cli; cli.import_tensorflow()"),
    "benchmarks": (
        "-c",
        "from benchmarks import harness; harness.run(lambda _: __import__('tensorflow'))",
    ),
}


@pytest.mark.parametrize(
    ("machine", "environment", "missing"),
    [
        ("x86_64", {"A": "1"}, {onednn.VARIABLE: "1"}),
        ("AMD64", {}, {onednn.VARIABLE: "1"}),
        ("x86_64", {onednn.VARIABLE: "0"}, {}),
        ("x86_64", {onednn.VARIABLE: ""}, {}),
        ("aarch64", {}, {}),
    ],
)
def test_it_is_chosen_on_x86_unless_the_environment_has_a_choice(
    machine, environment, missing, monkeypatch
):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert onednn.missing_variables(environment) == missing


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN is turned on on x86 only"
)
@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize(("given", "chosen"), [(None, "1"), ("0", "0")])
def test_programs_turn_it_on_before_tensorflow_is_imported(
    name, given, chosen, tmp_path, run_command, monkeypatch
):
    """A stand-in for TensorFlow, and the program that is run, show the choice."""
    if given is None:
        monkeypatch.delenv(onednn.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(onednn.VARIABLE, given)
    for file in ("tensorflow.py", "program.py"):
        (tmp_path / file).write_text(SHOWS_CHOICE)
    printed = run_command(*PROGRAMS[name], folder=tmp_path).stdout
    assert f"chosen {chosen}\n" in printed
    assert printed.count("chosen") == 1


IMPORTS = """
import importlib, os, sys
import tensorflow
before = dict(os.environ)
for name in sys.argv[1:]:
    importlib.import_module(name)
print({name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)})
"""


def test_imports_leave_the_environment_alone(run_command, monkeypatch):
    monkeypatch.delenv(onednn.VARIABLE, raising=False)
    modules = ["replicate.public", "kfac", "model_deploy", "replicate.run", "replicate.doctor"]
    programs = ["replicate.compat.__main__", "replicate.launch.__main__", "examples.cli"]
    assert run_command("-c", IMPORTS, *modules, *programs).stdout == "set()\n"
