"""Commands that stand for `python` in a program, so that the runner runs the programs it starts.

A program starts others by `subprocess.call([sys.executable, "eval.py"])`, by
`os.system("python eval.py")` or by a script of the shell. While the runner runs it,
`sys.executable` and the first `python`, `python2` and `python3` in PATH are commands of a folder of
our own. They start the real Python; a program of the user's own gets the runner, with the same
options, and all else (`-c`, installed modules and tools) runs as ever.
"""

import contextlib
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_PREFIX = "replicate-compat-"
_NAMES = ("python", "python2", "python3")
_ALONE = frozenset("cmWX")
"""Options of Python that take a value, in the same argument or in the next one."""

_COMMAND = """#!/bin/sh
case "$1" in -c|-V|--version) exec {python} "$@";; esac
{variable}={value}
export {variable}
exec {python} {script} "$@"
"""


class PythonCall(NamedTuple):
    """Arguments of Python, taken apart.

    Attributes:
      options: Options of the interpreter.
      kind: "c", "m", "script", or "" for an interactive one.
      name: The code, the module or the file.
      arguments: The rest, for the program.
    """

    options: tuple[str, ...]
    kind: str
    name: str
    arguments: tuple[str, ...]


def take_apart(arguments: Sequence[str]) -> PythonCall:
    """Takes the arguments of Python apart, as Python reads them."""
    rest = list(arguments)
    options: list[str] = []
    while rest:
        first = rest.pop(0)
        if first == "-" or not first.startswith("-"):
            return PythonCall(tuple(options), "script", first, tuple(rest))
        letter, value = _with_value(first)
        if first.startswith("--check") or (letter and not value):
            given = rest[:1]
            del rest[:1]
        else:
            given = []
        if letter in ("c", "m"):
            before = first[1 : first.index(letter, 1)]
            options += [f"-{before}"] if before else []
            return PythonCall(tuple(options), letter, value or "".join(given), tuple(rest))
        options += [first, *given]
    return PythonCall(tuple(options), "", "", ())


def _with_value(option: str) -> tuple[str, str]:
    """Returns the letter that takes a value in options such as "-uc", and the value after it."""
    if option.startswith("--"):
        return "", ""
    place = next((i for i, letter in enumerate(option) if i and letter in _ALONE), 0)
    return (option[place], option[place + 1 :]) if place else ("", "")


@contextlib.contextmanager
def python_runs_programs(variable: str, value: str) -> Iterator[None]:
    """Lets `sys.executable` and `python` run programs by the runner.

    Where files of the folder of temporary ones cannot be executed, nothing changes.

    Args:
      variable: Environment variable that tells processes their program, as JSON.
      value: Its value.
    """
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    owner, executable, path = os.getpid(), sys.executable, os.environ.get("PATH")
    try:
        commands = [os.path.join(folder, name) for name in _NAMES]
        for each in commands:
            _write_command(each, executable, variable, value)
        if executable and os.access(commands[0], os.X_OK):
            sys.executable = commands[0]
            os.environ["PATH"] = os.pathsep.join([folder, path or os.defpath])
        yield
    finally:
        sys.executable = executable
        if path is not None:
            os.environ["PATH"] = path
        else:
            os.environ.pop("PATH", None)
        if os.getpid() == owner:  # A copy by os.fork leaves what it shares.
            shutil.rmtree(folder, ignore_errors=True)


def take_inherited_command() -> None:
    """Makes `sys.executable` the command of the process that started this one."""
    folder = os.environ.get("PATH", "").partition(os.pathsep)[0]
    command = os.path.join(folder, _NAMES[0])
    if os.path.basename(folder).startswith(_PREFIX) and os.access(command, os.X_OK):
        sys.executable = command


def _write_command(path: str, python: str, variable: str, value: str) -> None:
    text = _COMMAND.format(
        python=shlex.quote(python),
        variable=variable,
        value=shlex.quote(value),
        script=shlex.quote(os.path.join(os.path.dirname(__file__), "start_python.py")),
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)  # noqa: S103  # The folder is the user's alone.


def is_tool(path: str) -> bool:
    """Returns True for a script among the commands of installed packages, such as pip."""
    return os.path.dirname(os.path.realpath(path)) == os.path.realpath(
        sysconfig.get_path("scripts")
    )
