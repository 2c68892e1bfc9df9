"""The main module of a process that a program of TensorFlow 1 starts by multiprocessing.

The start method "spawn" imports the main module of the parent under another name. The runner names
this module as the main module, and this one runs the program in its place, in its own namespace.
"""

import json
import os
import sys
import types
from contextlib import ExitStack

from replicate.compat.python_command import take_inherited_command
from replicate.compat.runner import CHILD, Program, fill_main, prepare, towers_of

_towers = ExitStack()
"""The towers of the program, which stay while this process lives."""


def run_in(main: types.ModuleType) -> None:
    """Runs the program of the parent process in a module, whose name it finds in `__name__`."""
    fields = json.loads(os.environ[CHILD])
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    program = Program(**{**fields, **lists})
    code = prepare(program)
    fill_main(main, code)
    take_inherited_command()
    _towers.enter_context(towers_of(program))
    exec(code.code, vars(main))  # noqa: S102  # It is the user's program.


if __name__ == "__mp_main__":
    run_in(sys.modules[__name__])
