"""Table and picture of the losses of `benchmarks.scaling.rounds`, from its files.

    python -m benchmarks.scaling.rounds_picture --picture=FILE.png digits.jsonl mnist.jsonl

The table has the loss of the same optimizer in every step, and how many percent that of rounds is
above; in brackets the smallest and the largest of the seeds.
"""

import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import TypeAlias

from absl import app, flags
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness import markdown_row

Found: TypeAlias = dict[tuple[str, ...], dict[int, list[list[float]]]]
"""Steps, losses and bytes by way (inner optimizer, H, outer optimizer, factors) and by seed."""

DRAWN = {
    ("adam", "0", "", ""): ("Adam, every step", "#D55E00", "-"),
    ("adam", "20", "1/0", "mean"): ("Adam, H = 20", "#D55E00", "--"),
    ("kfac", "0", "", ""): ("K-FAC, every step", "#0072B2", "-"),
    ("kfac", "20", "1/0", "mean"): ("K-FAC, H = 20, factors averaged", "#0072B2", "--"),
    ("kfac", "20", "1/0", "local"): ("K-FAC, H = 20, factors local", "#009E73", ":"),
}


def load(path: str) -> dict[int, Found]:
    """Returns the measurements in a file by number of workers."""
    found: dict[int, Found] = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        way = tuple(str(case[key]) for key in ("inner", "every", "outer", "factors"))
        found.setdefault(case["workers"], {}).setdefault(way, {})[case["seed"]] = case["found"]
    return found


def cells(found: Found, way: tuple[str, ...]) -> list[str]:
    """Returns how many times fewer bytes, and the losses, of a way of training."""
    alike = found.get((way[0], "0", "", ""), {})
    runs = {seed: run for seed, run in found.get(way, {}).items() if seed in alike}
    if not runs:
        return ["", ""]
    is_rounds = way[1] != "0"
    ratios = [100 * run[-1][1] / alike[seed][-1][1] - 100 for seed, run in runs.items()]
    values = ratios if is_rounds else [run[-1][1] for run in runs.values()]
    spread = f" [{min(values):.1f}, {max(values):.1f}]" if len(values) > 1 else ""
    seed, run = next(iter(runs.items()))
    times = f"{alike[seed][-1][2] / run[-1][2]:.0f}" if is_rounds else ""
    return [times, f"{statistics.median(values):.1f}{spread}"]


def draw(axes: Axes, found: Found, column: int) -> None:
    """Draws median losses by steps, column 0, or by bytes, column 2."""
    for way, (label, colour, line) in DRAWN.items():
        points = [
            (rows[0][column], statistics.median(row[1] for row in rows))
            for rows in zip(*found.get(way, {}).values(), strict=True)
            if rows[0][column] > 0
        ]
        axes.plot(*zip(*points, strict=True), color=colour, linestyle=line, label=label)
    axes.set_xscale("log" if column else "linear")
    axes.set_xlabel("bytes that a worker has sent" if column else "steps")
    axes.grid(color="#E6E6E6")
    axes.spines[["top", "right"]].set_visible(False)


def main(arguments: Sequence[str]) -> None:
    """Prints the table, and draws the cases of most workers of each file."""
    files = {pathlib.Path(path).stem: load(path) for path in arguments[1:]}
    parts = [(f"{name}, {n}", found[n]) for name, found in files.items() for n in sorted(found)]
    print(markdown_row(["", *(word for name, _ in parts for word in ("fewer bytes", name))]))
    print("|---" * (1 + 2 * len(parts)) + "|")
    for way in sorted({way for _, found in parts for way in found}):
        print(markdown_row([" ".join(way), *(c for _, found in parts for c in cells(found, way))]))
    figure = Figure(figsize=(10, 0.4 + 3.9 * len(files)), dpi=120, layout="constrained")
    figure.suptitle("Workers that meet in every step, or in rounds of H steps", fontweight="bold")
    panels = figure.subplots(len(files), 2, squeeze=False)
    for row, (name, found) in zip(panels, files.items(), strict=True):
        for axes, column in zip(row, (0, 2), strict=True):
            draw(axes, found[max(found)], column)
        row[0].set_title(f"Autoencoder, {name}, {max(found)} workers", loc="left", fontsize=11)
        row[0].set_ylabel("loss, median of the seeds")
    panels[0, 0].legend(frameon=False, fontsize=9)
    figure.savefig(flags.FLAGS.picture)


if __name__ == "__main__":
    flags.DEFINE_string("picture", "rounds.png", "PNG file to draw.")
    app.run(main)
