"""Outcome of a part: verdict, summary, and tables of its figures; and its lines in the report."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks import harness

Cell: TypeAlias = str | int | float
OK, FAILED, SKIPPED = "ok", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Table:
    """Figures of a part."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def lines(self) -> Iterator[str]:
        """Yields the lines of a Markdown table."""
        yield harness.markdown_row(self.columns)
        yield harness.markdown_row(["---"] * len(self.columns))
        for row in self.rows:
            cells = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
            yield harness.markdown_row([cell.replace("|", "\\|") for cell in cells])


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a part, whose verdict is `OK`, `FAILED` or `SKIPPED`."""

    verdict: str
    summary: str
    tables: Sequence[Table] = ()
    seconds: float = 0.0

    def lines(self, name: str) -> Iterator[str]:
        """Yields the section of a part."""
        yield from ("", f"## {name}", "", f"{self.verdict}: {self.summary}.")
        for table in self.tables:
            yield from ("", f"{table.title}:", "", *table.lines())


def judge(is_ok: bool, summary: str, *tables: Table) -> Outcome:
    """Returns the outcome of a part that ran to its end."""
    return Outcome(OK if is_ok else FAILED, summary, tables)


def from_json(data: Mapping[str, Any]) -> Outcome:
    """Returns the outcome that `dataclasses.asdict` turned into `data`."""
    return Outcome(**{**data, "tables": tuple(Table(**table) for table in data["tables"])})
