"""python -m replicate.report DIR writes DIR/report.md and its pictures: the results of a run.

The page shows loss and metrics by step, steps per second, results of evaluations, and the health of
K-FAC if it trained. All values come from the event files in the model directory DIR. TensorBoard
and matplotlib must be installed. Exit codes: 0 done; 2 there is nothing to report, or something is
missing.
"""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from replicate.quiet_imports import quiet_stderr
from replicate.report.curves import read_curves
from replicate.report.page import page
from replicate.report.panels import kfac_panels, main_panels
from replicate.report.pictures import draw

_LIBRARIES = ("tensorboard", "matplotlib")
_BAD_INPUT = 2


def main(arguments: Sequence[str]) -> int:
    """Writes the report and returns the exit code.

    Args:
      arguments: Arguments of the command line, without the program's name.
    """
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        folder = _model_dir(arguments)
        _import_libraries()
        print(_write(folder))
    except (ImportError, OSError, ValueError) as error:
        print(f"replicate.report: {error}", file=sys.stderr)
        return _BAD_INPUT
    return 0


def _model_dir(arguments: Sequence[str]) -> Path:
    """Returns the model directory of the command line.

    Raises:
      ValueError: There is not exactly one argument, or it is not a directory.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        given = " ".join(arguments) or "nothing"
        raise ValueError(f"expected one model directory, got {given}: see --help")
    folder = Path(arguments[0])
    if not folder.is_dir():
        raise ValueError(f"there is no directory {folder}: correct the path")
    return folder


def _import_libraries() -> None:
    """Imports TensorBoard and matplotlib without their output.

    Raises:
      ImportError: One of them is not installed; the message says how to install it.
    """
    try:
        for library in _LIBRARIES:
            importlib.import_module(library)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{error.name} is not installed: pip install 'replicate-model-fn[examples]'"
        ) from None
    # TensorBoard uses TensorFlow to read events if it is installed.
    with quiet_stderr(), contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("tensorflow")


def _write(folder: Path) -> str:
    """Writes the page and its pictures, and returns the path of the page."""
    runs = read_curves(folder)
    if not runs:
        raise ValueError(f"there are no event files with curves in {folder}: give a model_dir")
    title = f"Report of {folder.resolve().name}"
    files = {
        "Curves": ("report.png", main_panels(runs)),
        "K-FAC": ("report_kfac.png", kfac_panels(runs)),
    }
    pictures = {}
    for heading, (name, panels) in files.items():
        if panels:
            draw(panels, folder / name, f"{title}: {heading}")
            pictures[heading] = name
    path = folder / "report.md"
    path.write_text(page(title, runs, pictures), encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
