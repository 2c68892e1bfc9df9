"""What a benchmark leaves behind: a JSON file of what it measured, on what, and a picture."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_DISTRIBUTIONS = ("tensorflow-cpu", "tensorflow", "numpy", "replicate-model-fn")


def write(path: str, measured: Any) -> None:
    """Writes what was measured, with date, versions and processor, as JSON.

    Args:
      path: Of the file.
      measured: Anything that JSON can hold.
    """
    text = json.dumps({**_circumstances(), "measured": measured}, indent=1)
    pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def draw_bars(
    path: str, groups: Mapping[str, Mapping[str, Sequence[float]]], title: str, unit: str
) -> None:
    """Draws the median of each group's series as bars, with the extremes as whiskers.

    Args:
      path: PNG file.
      groups: Group of bars -> name of a bar, which a group may lack -> values.
      title: Above the bars.
      unit: Of the values.
    """
    from matplotlib import figure  # noqa: PLC0415

    picture = figure.Figure(figsize=(1.5 + 2.2 * len(groups), 3.6), layout="constrained")
    axes = picture.add_subplot()
    names = dict.fromkeys(name for group in groups.values() for name in group)
    width = 0.8 / len(names)
    for name in names:
        values = [group[name] for group in groups.values() if name in group]
        medians = [statistics.median(series) for series in values]
        below = [m - min(series) for m, series in zip(medians, values, strict=True)]
        above = [max(series) - m for m, series in zip(medians, values, strict=True)]
        positions = [
            index + (list(group).index(name) - (len(group) - 1) / 2) * width
            for index, group in enumerate(groups.values())
            if name in group
        ]
        axes.bar(positions, medians, width, yerr=[below, above], label=name, capsize=2)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel(unit)
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    picture.savefig(path, dpi=120)


def _circumstances() -> dict[str, Any]:
    versions = {}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "versions": versions,
    }


def _processor() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
