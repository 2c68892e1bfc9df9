"""Outcome of a part: verdict, summary, and tables of its figures; and its lines in the report."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import harness

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class Table(NamedTuple):
    """Figures of a part."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


class Outcome(NamedTuple):
    """Outcome of a part, whose verdict is `OK`, `FAILED` or `SKIPPED`."""

    verdict: str
    summary: str
    tables: Sequence[Table] = ()
    seconds: float = 0.0

    def lines(self, name: str) -> Iterator[str]:
        """Yields the section of a part."""
        yield from ("", f"## {name}", "", f"{self.verdict}: {self.summary}.")
        for title, columns, rows in self.tables:
            yield from ("", f"{title}:", "", *harness.table(columns, rows))


def judge(is_ok: bool, summary: str, *tables: Table) -> Outcome:
    """Returns the outcome of a part that ran to its end."""
    return Outcome(OK if is_ok else FAILED, summary, tables)
