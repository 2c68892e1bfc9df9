"""Shows, or makes, the changes that programs of TensorFlow 1 need on current TensorFlow.

Prints a unified diff, and what is left to do by hand: file, line, column, the old name, and what to
write. Give all files of a program together, or their folder. Exit codes: 0 nothing is left to do by
hand, 2 wrong arguments, 4 something is left.
"""

import sys

from replicate.current_folder import leave_current_folder

if __name__ == "__main__":
    leave_current_folder()

import argparse
import importlib
import importlib.util
import os
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from replicate.closed_pipe import drop_output
from replicate.exit_codes import ExitCode
from replicate.migrate.files import UnwritableFileError, find_files, replace_text

_NAME = "replicate.migrate"
_COLORS = {"+": "32", "-": "31", "@": "36"}


def main(arguments: Sequence[str]) -> int:
    """Rewrites programs by the command line, and returns the exit code.

    Raises:
      SystemExit: The arguments are wrong, or libcst is not installed.
    """
    given = _parser().parse_args(arguments)
    if importlib.util.find_spec("libcst") is None:
        _refuse("libcst is not installed: pip install libcst.")
    try:
        paths = find_files(given.paths)
    except FileNotFoundError as error:
        _refuse(str(error))
    if not paths:
        _refuse(f"there is no Python file or notebook in {', '.join(given.paths)}.")
    results = importlib.import_module("replicate.migrate.command").rewrite_files(
        paths, towers=given.towers, in_new=given.write, python2=given.python2
    )
    try:
        return _tell(results, given.write, given.explain)
    except BrokenPipeError:
        return drop_output()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a notebook or a folder")
    parser.add_argument("--write", action="store_true", help="change the files; print no diff")
    parser.add_argument(
        "--towers",
        action="store_true",
        help="also make the Estimators train on all devices: replicate_model_fn around model_fns, "
        "TowerOptimizer around optimizers",
    )
    parser.add_argument(
        "--python2",
        action="store_true",
        help="translate all modules from Python 2, not only those that are recognized",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also print what is different of the names that were replaced",
    )
    return parser


def _tell(results: Sequence[Any], write: bool, explain: bool) -> int:
    changed = [each for each in results if each.new != each.old]
    left = [(each.path, *entry) for each in results for entry in each.left]
    count = sum(each.count for each in changed)
    if not write:
        _print_diff(line for each in changed for line in each.diff())
    else:
        for each in changed:
            try:
                replace_text(each.path, each.old, each.new)
            except UnwritableFileError as error:
                left.append((each.path, "1:1", "", f"{error}, and stays as it is."))
    if explain:
        differences = {old: text for each in results for old, text in each.differences.items()}
        _say("Different from before:" if differences else "", differences.items())
    _say("Left for you:" if left else "", ((f"{path}:{at}", *told) for path, at, *told in left))
    end = "" if write or not changed else "; --write makes the changes"
    counts = f"{_number(len(changed), 'file')}, {_number(count, 'change')}"
    print(f"{counts}, {len(left)} left for you{end}", file=sys.stderr)
    return ExitCode.LEFT_TO_DO if left else ExitCode.DONE


def _print_diff(lines: Iterable[str]) -> None:
    _allow_all_names(sys.stdout)
    is_colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in lines:
        color = _COLORS.get(line[0]) if is_colored else None
        text = line if color is None else f"\033[{color}m{line.rstrip()}\033[0m\n"
        sys.stdout.write(text)
    sys.stdout.flush()


def _allow_all_names(stream: Any) -> None:
    """Lets a stream print names of files that are no text in its encoding."""
    if hasattr(stream, "reconfigure"):
        is_utf8 = str(stream.encoding).lower().replace("-", "") == "utf8"
        stream.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


def _say(title: str, entries: Iterable[Sequence[str]]) -> None:
    if title:
        print(title, file=sys.stderr)
    for parts in entries:
        print(f"  {': '.join(filter(None, parts))}", file=sys.stderr)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _refuse(trouble: str) -> NoReturn:
    print(f"{_NAME}: {trouble}", file=sys.stderr)
    raise SystemExit(ExitCode.BAD_INPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
