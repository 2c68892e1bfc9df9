"""Programs that a benchmark starts in a process of their own, and what they print as JSON.

A benchmark does so where a process can be used only once: for its logical devices, its peak of
memory, its installation of TensorFlow. What is measured there is the callers' business.
"""

import json
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
_SAID = 2000  # characters of a program's standard error, from its end, that a failure shows


class ChildError(SystemExit):
    """Ends the benchmark unless caught, and shows what the program said last."""


def run(command: Sequence[str], purpose: str, seconds: float | None = None) -> str:
    """Runs a program from the root of the project; returns what it printed.

    Args:
      command: Program and arguments.
      purpose: What it is to do, for the message of an error: "time the MLP".
      seconds: After which it is ended; None for never.

    Raises:
      ChildError: The program failed, or took too long.
    """
    try:
        done = subprocess.run(  # noqa: S603  # Python, pip, and programs of this package
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"Could not {purpose} in {seconds:.0f} s.") from error
    if done.returncode:
        raise ChildError(f"Could not {purpose}; {command[0]} said:\n{done.stderr[-_SAID:]}")
    return done.stdout


def read_json(command: Sequence[str], purpose: str, seconds: float | None = None) -> Any:
    """Runs a program as `run` does; returns what the last line that it printed means in JSON."""
    return json.loads(run(command, purpose, seconds).splitlines()[-1])
