"""The page "Programs that were run": one line of a table for each program."""

import datetime
import math
import platform
import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from tools.published.equality import KINDS, equality
from tools.published.program import Program
from tools.published.runs import Run, Way

_TABLE = re.compile(r"(<!-- programs -->\n).*?(<!-- end of programs -->)", re.DOTALL)
_VERSIONS = re.compile(r"(<!-- versions -->\n).*?(<!-- end of versions -->)", re.DOTALL)
_HEAD = (
    "| program | uses | one tower | two towers | rewritten | equal | first stopper |",
    "|---|---|---|---|---|---|---|",
)
_ROW = re.compile(r"\| \[(?P<name>[^\]]+)\]\(https://[^/]+/(?P<repository>[^/]+/[^/]+)/")
_STOPS = "| stops |"
_CLOSE = 1e-3
_SHOWN = ("tensorflow_cpu", "tf_keras", "tf_slim", "numpy", "pandas", "scipy")


def row_of(program: Program, runs: Mapping[Way, Run]) -> str:
    """Returns the line of a program.

    A run that ended has the last number that it printed, with the difference from one tower's if
    it is more than 0.1 %.
    """
    first = next((run.stopper for run in runs.values() if run.stopper), "")
    cells = [
        f"[{program.name}]({program.url})",
        program.uses,
        *(_cell(runs, way) for way in (Way.ONE, Way.TWO, Way.REWRITTEN)),
        equality(runs),
        first.replace("|", r"\|"),
    ]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _cell(runs: Mapping[Way, Run], way: Way) -> str:
    run = runs.get(way)
    if run is None:
        return "–"
    if run.stopper:
        return "stops"
    return f"{run.results[-1]:.5g}{_difference(run, runs.get(Way.ONE))}"


def _difference(run: Run, one: Run | None) -> str:
    if one is None or one.stopper or one is run:
        return ""
    last, other = run.results[-1], one.results[-1]
    if math.isclose(last, other, rel_tol=_CLOSE) or math.isnan(last) == math.isnan(other) is True:
        return ""
    return f" ({100 * (last / other - 1):+.2g} %)" if other else f" ({last - other:+.2g})"


def with_rows(
    page: str, rows: Iterable[str], names: Iterable[str], when: datetime.date, commit: str = ""
) -> str:
    """Returns the page with new lines in place of older ones of the same programs.

    Args:
      page: Its text.
      rows: The new lines.
      names: Names of all programs, in the order of the table. Others leave it.
      when: Day on which the new lines were made.
      commit: Commit of this project that made them, "" if it is not known.

    Raises:
      ValueError: The page has no place for the table or the versions.
    """
    place = _TABLE.search(page)
    if place is None or _VERSIONS.search(page) is None:
        raise ValueError("The page has no marks for its table and its versions.")
    lines = {}
    for line in (*place[0].splitlines(), *rows):
        found = _ROW.match(line)
        if found is not None:
            lines[found["name"]] = line
    shown = [lines[name] for name in names if name in lines]
    table = "\n".join((*_HEAD, *shown))
    head = f"{_count(shown)} {_versions(when, commit)}"
    page = _TABLE.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)
    return _VERSIONS.sub(lambda found: f"{found[1]}\n{head}\n\n{found[2]}", page)


def _count(lines: Iterable[str]) -> str:
    """Returns a sentence on the number of programs, and on those that ran to their end."""
    rows = [found for found in map(_ROW.match, lines) if found]
    ended = sum(_STOPS not in found.string for found in rows)
    repositories = len({found["repository"] for found in rows})
    cells = [cell for found in rows for cell in found.string.split(" | ")]
    counts = ((kind, sum(cell.startswith(kind) for cell in cells)) for kind in KINDS)
    told = ", ".join(f"{kind} {count}" for kind, count in counts if count)
    return (
        f"{ended} of {len(rows)} programs, from {repositories} repositories, ran to their end in "
        f"every way that they have. Rewritten against one tower: {told or 'none'}."
    )


def _versions(when: datetime.date, commit: str) -> str:
    told = [f"Python {platform.python_version()}"]
    for name in _SHOWN:
        try:
            told.append(f"{name.replace('_', '-')} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    made = f"{when.day} {when:%B %Y}" + (f", at commit {commit}" if commit else "")
    return f"Last written on {made}, with {', '.join(told)}."
