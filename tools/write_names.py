"""Writes the tables of old names into the reference, from the data that the code uses.

    python tools/write_names.py            # rewrites docs/reference/*.md
    python tools/write_names.py --check    # fails if a page differs

A page has a table between two marks, `<!-- names: tf.estimator -->` and `<!-- end of names -->`.
After the colon stand packages whose rows the table has, or, with a minus, leaves out. "gone from
kfac", "settings of kfac" and "methods of kfac" stand for the names in `kfac.old_programs.table`.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from kfac.old_programs.table import GONE, NEVER_CALLED, SETTINGS
from replicate.compat.table import TABLE, Row

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
GUIDES = PAGES.parent / "howto"
MARKED = re.compile(
    r"(?P<begin><!-- names: (?P<which>[^>]+) -->\n).*?(?P<end><!-- end of names -->)", re.DOTALL
)
_CODE = re.compile(
    r"(?<![\w.`/])(?:kfac|model_deploy|replicate|tf|tf_slim)(?:\.\w+)+(?:\([^()]*\))?"
)


def written(text: str) -> str:
    """Returns the text of a page with its tables written anew."""

    def table(found: re.Match[str]) -> str:
        return f"{found['begin']}\n{table_of(found['which'])}\n\n{found['end']}"

    return MARKED.sub(table, text)


def table_of(which: str) -> str:
    """Returns a table.

    Args:
      which: The text after "names: " of its mark.

    Raises:
      ValueError: It names neither a table nor a package that has rows.
    """
    if which in _TABLES:
        return "\n".join(_TABLES[which]())
    packages = which.split(", ")
    without = tuple(f"{each[1:]}." for each in packages if each.startswith("-"))
    rows = [row for each in packages if each[0] != "-" for row in _rows_of(each)]
    rows = [row for row in rows if not row.old.startswith(without)]
    return "\n".join(["| old | new | different |", "|---|---|---|", *_lines(rows)])


def _rows_of(package: str) -> list[Row]:
    """Returns the rows below a package, or that of a name.

    Raises:
      ValueError: There are none.
    """
    rows = [row for row in TABLE.values() if f"{row.old}.".startswith(f"{package}.")]
    if not rows:
        raise ValueError(f"No row of the table of old names begins with {package!r}.")
    return rows


def _lines(rows: Iterable[Row]) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_kind(row), []).append(row)
    for group in groups.values():
        cells = (_names(row.old for row in group), _new(group), _different(group[0]))
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _kind(row: Row) -> tuple[str, ...]:
    """Returns what rows of one line have in common."""
    package, _, name = row.old.rpartition(".")
    home, _, last = (row.new or "").rpartition(".")
    if row.new is None:
        return "", package, row.difference
    if last == name:
        return "same", package, home, row.difference, row.page
    if name == "*":
        return "all", row.new, row.difference
    return ("other", row.old)


def _names(names: Iterable[str]) -> str:
    """Returns names as code, the first with its package, and later ones without the same one."""
    told = []
    package = ""
    for name in names:
        own, _, last = name.rpartition(".")
        told.append(f"`{last}`" if own == package and last != "*" else f"`{name}`")
        package = own
    return ", ".join(told)


def _new(rows: list[Row]) -> str:
    new = rows[0].new
    if new is None:
        return "–"
    if rows[0].old.endswith(".*"):
        return f"all names of `{new}`"
    return f"`{new}`" if len(rows) == 1 else f"the same in `{new.rpartition('.')[0]}`"


def _different(row: Row) -> str:
    text = as_code(row.difference)
    if row.page:
        title = (GUIDES / row.page.partition("#")[0]).read_text().partition("\n")[0].lstrip("# ")
        text = f"{text} See [{title}](../{GUIDES.name}/{row.page})".strip()
    return text


def as_code(text: str) -> str:
    """Returns a text for a cell, with its dotted names as code.

    Args:
      text: Plain text, or text that marks its code.
    """
    marked = text if "`" in text else _CODE.sub(lambda found: f"`{found[0].rstrip('.')}`", text)
    return marked.replace("|", r"\|")


def _moved() -> Iterator[str]:
    yield from ("| there | here |", "|---|---|")
    for place, names in GONE.items():
        others = {name: new for name, new in names.items() if SETTINGS.get(name) != new}
        last = place.rpartition(".")[2]
        owner = f"`{place}`" if last.islower() else f"objects of `{last}`"
        yield from _moved_lines(f"{owner}: ", others)


def _settings() -> Iterator[str]:
    yield from ("| constant | here |", "|---|---|")
    in_utils = {"POSDEF_INV_METHOD": GONE["kfac.utils"]["POSDEF_INV_METHOD"]}
    yield from _moved_lines("", {**SETTINGS, **in_utils})


def _hooks() -> Iterator[str]:
    yield from ("| overridden there | here |", "|---|---|")
    yield from _moved_lines("", NEVER_CALLED["kfac.optimizer.KfacOptimizer"])


def _moved_lines(owner: str, names: Mapping[str, str]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for name, new in names.items():
        groups.setdefault(new, []).append(name)
    for new, olds in groups.items():
        yield f"| {owner}{', '.join(f'`{old}`' for old in olds)} | {as_code(new)} |"


_TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "gone from kfac": _moved,
    "settings of kfac": _settings,
    "methods of kfac": _hooks,
}


def main() -> int:
    """Writes or checks the pages; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Writes the tables of old names into the reference."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if a page differs"
    )
    given = parser.parse_args()
    differing = []
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text()
        new = written(text)
        if new != text:
            differing.append(str(path))
            if not given.check:
                path.write_text(new)
    print("\n".join(differing) if differing else "The tables of old names are as the data are.")
    return 1 if given.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
