"""python -m replicate.report DIR writes DIR/report.html and DIR/report.md: the results of a run.

The pages show loss and metrics by step and by time, speed, what the time was spent on, results of
evaluations, and the health of K-FAC if it trained. report.html is one file that needs no network;
it also shows the model table, devices, environment and settings of the run. report.md has its
pictures beside it.

Several directories give one page that compares them: curves over each other, times, best results,
settings that differ. It is comparison.html in the folder that holds them all, or else in the
current one.

--open      opens the page in the browser
--output=F  writes the HTML page to F

Symbolic links that lead out of a model directory are neither read nor written to.

Curves come from the event files in the directories, the rest from their config.json, run.json and
time.json. TensorBoard, matplotlib and Jinja2 must be installed. Exit codes: 0 done; 2 there is
nothing to report, or something is missing.
"""

import sys

from replicate.current_folder import leave_current_folder

if __name__ == "__main__":
    leave_current_folder()

import importlib
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from replicate.links import leads_out
from replicate.quiet_imports import import_if_installed
from replicate.report.curves import read_curves
from replicate.report.html_page import ReportedRun, comparison_page, run_page
from replicate.report.page import page
from replicate.report.panels import kfac_panels, main_panels
from replicate.report.pictures import draw
from replicate.report.records import read_record
from replicate.report.times import read_times

_LIBRARIES = ("tensorboard", "matplotlib", "jinja2")
_BAD_INPUT = 2
_OUTPUT = "--output="
_SEE_HELP = "see --help"


class _Request(NamedTuple):
    """The command line: model directories, the path of the HTML page if it is given, --open."""

    folders: list[Path]
    output: Path | None
    opens: bool


def main(arguments: Sequence[str]) -> int:
    """Writes the report and returns the exit code."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        request = _parsed(arguments)
        _import_libraries()
        written = _compare(request) if len(request.folders) > 1 else _report(request)
    except (ImportError, OSError, ValueError) as error:
        print(f"replicate.report: {error}", file=sys.stderr)
        return _BAD_INPUT
    print(*written, sep="\n")
    if request.opens and not webbrowser.open(written[0].resolve().as_uri()):
        print("replicate.report: no browser was found: open the page yourself", file=sys.stderr)
    return 0


def _parsed(arguments: Sequence[str]) -> _Request:
    """Returns the command line.

    Raises:
      ValueError: A flag is unknown, or there is no directory, or one does not exist or comes twice.
    """
    folders, output, opens = [], None, False
    for argument in arguments:
        if argument == "--open":
            opens = True
        elif argument.startswith(_OUTPUT) and argument != _OUTPUT:
            output = Path(argument.removeprefix(_OUTPUT))
        elif argument.startswith("-"):
            raise ValueError(
                f"expected directories, --open or {_OUTPUT}FILE, got {argument}: {_SEE_HELP}"
            )
        else:
            folders.append(_folder(argument))
    if not folders:
        raise ValueError(f"expected one model directory or several, got none: {_SEE_HELP}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError(
            f"a directory is given twice: {' '.join(arguments)}; leave one of them out"
        )
    return _Request(folders, output, opens)


def _folder(argument: str) -> Path:
    folder = Path(argument)
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
        raise ImportError(f"{error.name} is not installed: pip install {error.name}") from None
    # TensorBoard uses TensorFlow to read events if it is installed.
    import_if_installed("tensorflow")


def _read(folder: Path, name: str) -> ReportedRun:
    """Reads a model directory.

    Raises:
      ValueError: It has no curves.
    """
    runs = read_curves(folder)
    if not runs:
        raise ValueError(f"there are no event files with curves in {folder}: give a model_dir")
    return ReportedRun(name, runs, read_record(folder), read_times(folder))


def _report(request: _Request) -> list[Path]:
    """Writes the pages and the pictures of one run, and returns the paths of the pages."""
    (folder,) = request.folders
    run = _read(folder, folder.resolve().name)
    title = f"Report of {run.name}"
    files = {
        "Curves": ("report.png", main_panels(run.runs)),
        "K-FAC": ("report_kfac.png", kfac_panels(run.runs)),
    }
    pictures = {}
    for heading, (name, panels) in files.items():
        if panels:
            draw(panels, _own(folder / name), f"{title}: {heading}")
            pictures[heading] = name
        timed = [panel for panel in panels if panel.has_seconds]
        if timed:
            over_time, picture = f"{heading} by time", name.replace(".png", "_by_time.png")
            draw(timed, _own(folder / picture), f"{title}: {over_time}", by_seconds=True)
            pictures[over_time] = picture
    html = request.output or _own(folder / "report.html")
    markdown = _own(folder / "report.md")
    html.write_text(run_page(run), encoding="utf-8")
    markdown.write_text(page(title, run.runs, pictures, run.times), encoding="utf-8")
    return [html, markdown]


def _own(path: Path) -> Path:
    """Returns the path of a page or picture, which must not lead to a file elsewhere.

    Raises:
      ValueError: It is a symbolic link out of its directory.
    """
    if leads_out(path, path.parent):
        raise ValueError(f"{path} is a link out of its directory: remove it")
    return path


def _compare(request: _Request) -> list[Path]:
    """Writes the page that compares runs, and returns its path."""
    folders = request.folders
    parents = {folder.resolve().parent for folder in folders}
    beside = folders[0].resolve().parent if len(parents) == 1 else Path()
    output = request.output or _own(beside / "comparison.html")
    runs = [_read(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    output.write_text(comparison_page(runs), encoding="utf-8")
    return [output]


def _names(folders: Sequence[Path]) -> list[str]:
    """Returns the shortest ends of the paths that tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts))):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder.resolve()) for folder in folders]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
