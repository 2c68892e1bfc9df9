"""The report: report.json with all figures, report.md with a table of parts and their sections."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import harness
from benchmarks.gpu_check.devices import Devices, Gpu
from benchmarks.gpu_check.outcome import Cell, Outcome, Table

GPU_COLUMNS = ("GPU", "compute capability", "memory, GiB")


def line(name: str, outcome: Outcome) -> str:
    """Returns the line of a part for a terminal."""
    return f"{name:<16}{outcome.verdict.value:<8}{outcome.seconds:>5.0f} s  {outcome.summary}"


def write(
    folder: pathlib.Path, gpus: Sequence[Gpu], devices: Devices, outcomes: Mapping[str, Outcome]
) -> None:
    """Writes both files to a folder that exists."""
    measured = {
        "gpus": [dataclasses.asdict(gpu) for gpu in gpus],
        "devices": dataclasses.asdict(devices),
        "parts": {name: dataclasses.asdict(outcome) for name, outcome in outcomes.items()},
    }
    harness.write_record(str(folder / "report.json"), measured)
    text = "\n".join(markdown(gpus, devices, outcomes))
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")


def markdown(
    gpus: Sequence[Gpu], devices: Devices, outcomes: Mapping[str, Outcome]
) -> Iterator[str]:
    """Yields the lines of report.md."""
    yield from ("# GPU check", "", f"{devices}.", "")
    if gpus:
        yield from _table(Table("", GPU_COLUMNS, [_gpu_row(gpu) for gpu in gpus]))
    else:
        yield "No GPU: this run shows only that the check works. It says nothing about GPUs."
    rows = [
        [name, outcome.verdict.value, round(outcome.seconds), outcome.summary]
        for name, outcome in outcomes.items()
    ]
    yield ""
    yield from _table(Table("", ("part", "verdict", "seconds", "summary"), rows))
    for name, outcome in outcomes.items():
        yield from ("", f"## {name}", "", f"{outcome.verdict.value}: {outcome.summary}.")
        for table in outcome.tables:
            yield from ("", f"{table.title}:", "")
            yield from _table(table)


def _gpu_row(gpu: Gpu) -> list[Cell]:
    capability = ".".join(map(str, gpu.compute_capability)) or None
    return [gpu.name, capability, round(gpu.memory / 2**30, 1)]


def _table(table: Table) -> Iterator[str]:
    yield harness.markdown_row(table.columns)
    yield harness.markdown_row(["---"] * len(table.columns))
    for row in table.rows:
        yield harness.markdown_row([_text(cell) for cell in row])


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    text = f"{cell:.3g}" if isinstance(cell, float) else str(cell)
    return text.replace("|", "\\|")
