"""Runs public programs of TensorFlow 1, and writes the page "Programs that were run".

    python -m tools.published --mirrors=FOLDER --write

Each program is taken at one commit, from git or from a folder of mirrors, with tiny data that is
made here, and runs three ways: by `replicate.compat` on one tower, on two if it has an Estimator,
and rewritten by `replicate.migrate`, then without the runner. Nothing of a program is kept.
Exit codes: 0, 1 if a program stops or prints other numbers when it is rewritten, 2 if an argument
is wrong.
"""

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.published.equality import OTHER, equality
from tools.published.page import row_of, with_rows
from tools.published.program import Program
from tools.published.programs import PROGRAMS
from tools.published.runs import Run, Runner, Way
from tools.published.sources import HOST, AbsentSourcesError, Sources, commit_of

_CLONE = Path(__file__).resolve().parents[2]
PAGE = _CLONE / "docs" / "reference" / "programs_that_were_run.md"
_SHOWN_LINES = 25


def main(arguments: Sequence[str]) -> int:
    """Runs programs by the command line, and returns the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    chosen = [each for each in PROGRAMS if _is_asked(each, given.only)]
    if not chosen:
        parser.error(f"no program is named {', '.join(given.only)}.")
    sources = Sources(given.cache, given.mirrors, given.host)
    runner = Runner(sources, given.python, given.timeout)
    rows = []
    ended = equal = 0
    for program in chosen:
        runs = _tried(runner, program)
        if runs is None:
            continue
        rows.append(row_of(program, runs))
        ended += not any(run.stopper for run in runs.values())
        equal += not equality(runs).startswith(OTHER)
        _tell(program, runs)
        if given.write:
            names = [each.name for each in PROGRAMS]
            when = datetime.date.today()
            PAGE.write_text(with_rows(PAGE.read_text(), rows, names, when, commit_of(_CLONE)))
    skipped = len(chosen) - len(rows)
    print(f"{ended} of {len(rows)} programs ran to their end, {skipped} skipped")
    return 0 if ended == equal == len(rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", default=[], help="part of a name; repeatable")
    parser.add_argument("--mirrors", type=Path, help="folder of git mirrors, OWNER+NAME/repo")
    parser.add_argument("--host", default=HOST, help="where the repositories are, without mirrors")
    cache = Path.home() / ".cache" / "published"
    parser.add_argument("--cache", type=Path, default=cache, help="what the host gave stays here")
    parser.add_argument("--python", default=sys.executable, help="Python that runs the programs")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each command")
    parser.add_argument("--write", action="store_true", help="write the lines into the page")
    return parser


def _is_asked(program: Program, only: Sequence[str]) -> bool:
    name = program.name.lower()
    return not only or any(part.lower() in name for part in only)


def _tried(runner: Runner, program: Program) -> dict[Way, Run] | None:
    """Runs a program; None, with a line that says why, if it cannot be had."""
    missing = runner.missing(program)
    if missing:
        print(f"{program.name}: skipped, it needs {', '.join(missing)}", flush=True)
        return None
    try:
        return runner.run(program)
    except AbsentSourcesError as error:
        print(f"{program.name}: skipped, {error}", flush=True)
        return None


def _tell(program: Program, runs: dict[Way, Run]) -> None:
    """Prints one line for each run, and the end of the output of those that stopped."""
    for way, run in runs.items():
        last = run.stopper or f"{run.results[-1]:.6g}"
        print(f"{program.name}, {way.value}, {run.secs:.1f} s: {last}", flush=True)
        if run.stopper:
            print("\n".join(run.output.splitlines()[-_SHOWN_LINES:]), flush=True)
    print(f"{program.name}, rewritten against one tower: {equality(runs)}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
