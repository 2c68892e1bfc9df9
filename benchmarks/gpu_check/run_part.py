"""Runs a part in this process and writes its outcome to a file. The main process starts it.

    python -m benchmarks.gpu_check.run_part PART DEVICES FILE

DEVICES are the fields of `Devices` as JSON.
"""

import dataclasses
import importlib
import json
import pathlib
import sys
from collections.abc import Sequence

from benchmarks.gpu_check import devices, outcome
from benchmarks.gpu_check.parts import PARTS


def command(part: str, chosen: devices.Devices, file: pathlib.Path) -> list[str]:
    """Returns the command line of a part."""
    fields = json.dumps(dataclasses.asdict(chosen))
    return [sys.executable, "-m", "benchmarks.gpu_check.run_part", part, fields, str(file)]


def main(arguments: Sequence[str]) -> None:
    """Runs the part. Takes the last three words of `command`."""
    name, fields, file = arguments
    given = json.loads(fields)
    chosen = devices.Devices(tuple(given["names"]), given["part_megabytes"])
    part = PARTS[name]
    if part.module != "gpu_tests":
        devices.set_up(chosen)
    module = importlib.import_module(f"benchmarks.gpu_check.{part.module}")
    found: outcome.Outcome = getattr(module, part.function)(chosen)
    pathlib.Path(file).write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
