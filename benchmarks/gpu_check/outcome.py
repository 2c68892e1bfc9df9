"""Outcome of a part: verdict, summary, and tables of its figures."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float | None
"""Cell of a table; None: there is no such value."""


class Verdict(str, enum.Enum):
    """Verdict on a part."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Table:
    """Figures of a part."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a part."""

    verdict: Verdict
    summary: str
    tables: Sequence[Table] = ()
    seconds: float = 0.0


def judge(is_ok: bool, summary: str, *tables: Table) -> Outcome:
    """Returns the outcome of a part that ran to its end."""
    return Outcome(Verdict.OK if is_ok else Verdict.FAILED, summary, tables)


def failed(trouble: str) -> Outcome:
    """Returns the outcome of a part that could not run to its end."""
    return Outcome(Verdict.FAILED, trouble)


def skipped(reason: str) -> Outcome:
    """Returns the outcome of a part that cannot run on this machine."""
    return Outcome(Verdict.SKIPPED, reason)


def from_json(data: Mapping[str, Any]) -> Outcome:
    """Returns the outcome that `dataclasses.asdict` turned into `data`."""
    tables = tuple(Table(**table) for table in data["tables"])
    return Outcome(**{**data, "verdict": Verdict(data["verdict"]), "tables": tables})
