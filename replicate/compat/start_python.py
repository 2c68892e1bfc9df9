"""The process behind a command of `python_command.py`: it becomes the runner, or plain Python.

It is run by its path, with the arguments of Python.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_VARIABLE = "REPLICATE_COMPAT_CHILD"


def command_of(arguments: Sequence[str], program: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of the real Python for those that a command got.

    Args:
      arguments: What the program gave to `python`.
      program: Fields of the `Program` that starts it.
    """
    from replicate.compat.python_command import take_apart  # noqa: PLC0415  # Its folder is known.

    call = take_apart(arguments)
    if not _is_own(call.kind, call.name, program["packages"]):
        return list(arguments)
    options = [f"--package={name}" for name in program["packages"]]
    if program["num_towers"] is not None:
        options.append(f"--num_towers={program['num_towers']}")
    if program["devices"]:
        options.append(f"--devices={','.join(program['devices'])}")
    if program["python2"]:
        options.append("--python2")
    module = ["-m"] if call.kind == "m" else []
    runner = ["-m", "replicate.compat", *options, *module]
    return [*call.options, *runner, call.name, *call.arguments]


def _is_own(kind: str, name: str, packages: Sequence[str]) -> bool:
    """Returns True for a program of the user's own, False for one that is installed."""
    from replicate.compat.own_files import is_own_file  # noqa: PLC0415
    from replicate.compat.python_command import is_tool  # noqa: PLC0415

    if kind == "script":
        return os.path.isfile(name) and is_own_file(name) and not is_tool(name)
    if kind != "m":
        return False
    root = name.partition(".")[0]
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(root)
    finally:
        del sys.path[0]
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin]
    is_file = bool(places) and places[0] is not None and os.path.exists(places[0])
    return root in packages or (is_file and is_own_file(str(places[0])))


def _become_python() -> None:
    """Replaces this process by the real Python."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    elsewhere = sys.path[1:]
    sys.path[0] = home
    arguments = command_of(sys.argv[1:], json.loads(os.environ[_VARIABLE]))
    environment = dict(os.environ)
    if home not in map(os.path.realpath, elsewhere):
        found = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [found, home]))
    os.execve(sys.executable, [sys.executable, *arguments], environment)  # noqa: S606


if __name__ == "__main__":
    _become_python()
