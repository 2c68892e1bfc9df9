"""Runs programs, each in an empty folder, with the packages of the Python that runs this.

    PYTHON tools/try_programs.py FOLDER [--except=NAME.py,...]

One process imports TensorFlow, and the programs run in forks of it, one per processor. The exit
code is 1 if a program fails; its output is shown then.
"""

import argparse
import multiprocessing
import os
import runpy
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NamedTuple

_PRELOADED = ["tensorflow", "kfac", "replicate"]
_SECS = 300
_SHOWN_LINES = 30


class Run(NamedTuple):
    """A program that has run: its path, exit code (None: out of time), seconds and output."""

    program: Path
    code: int | None
    secs: float
    output: str


def run_program(program: str, folder: str) -> None:
    """Runs a program in this process, in a folder, with its output in the file `output` there."""
    os.chdir(folder)
    with open("output", "wb") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    sys.argv = [program]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")


def try_program(context: ForkServerContext, program: Path) -> Run:
    """Runs a program in a process of its own."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=run_program, args=(str(program), folder))
        process.start()
        process.join(_SECS)
        if process.exitcode is None:
            process.kill()
            process.join()
            code = None
        else:
            code = process.exitcode
        output = (Path(folder) / "output").read_text(errors="replace")
    return Run(program, code, time.monotonic() - start, output)


def report(run: Run) -> None:
    """Prints one line about a run, and the end of its output if it failed."""
    trouble = {0: "", None: f": not done after {_SECS} s"}.get(run.code, f": exit code {run.code}")
    print(f"{run.secs:5.1f} s  {run.program.name}{trouble}", flush=True)
    if run.code != 0:
        print("\n".join(run.output.splitlines()[-_SHOWN_LINES:]), flush=True)


def main() -> int:
    """Runs all programs, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Runs programs, each in an empty folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--except", dest="left_out", default="", help="names of files not to run")
    given = parser.parse_args()
    left_out = given.left_out.split(",")
    programs = [
        path for path in sorted(given.folder.resolve().glob("*.py")) if path.name not in left_out
    ]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        runs = list(threads.map(lambda path: try_program(context, path), programs))
    for run in runs:
        report(run)
    failed = sum(run.code != 0 for run in runs)
    print(f"{len(runs) - failed} of {len(runs)} programs ran")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
