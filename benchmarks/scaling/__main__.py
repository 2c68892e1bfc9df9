"""Tables of a measured cluster, from the points of `benchmarks.scaling.cluster_points`.

The first table has the milliseconds of a worker's step in each mode, the second how workers that
exchange nothing slow each other down. Of points that several files have, the medians count. Does
not need TensorFlow.

    python -m benchmarks.scaling --points=points.json
"""

import json
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import app, flags

from benchmarks.scaling.cluster_cases import Case, Point

FLAGS = flags.FLAGS


def medians(points: Iterable[Point]) -> dict[Case, Point]:
    """Returns one point per case, with the median of each value over repeated measurements."""
    grouped: dict[Case, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.case, []).append(point)
    return {
        case: Point(case, *(statistics.median(v) for v in list(zip(*each, strict=True))[1:]))
        for case, each in grouped.items()
    }


def step_lines(found: Mapping[Case, Point]) -> Iterator[str]:
    """Yields the lines of a table of steps: modes as rows, numbers of workers as columns."""
    counts = sorted({case.workers for case in found})
    yield "| mode | layers × width², batch | " + " | ".join(map(str, counts)) + " |"
    yield "|---|---|" + "---|" * len(counts)
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for case, point in found.items():
        cells = rows.setdefault((case.mode, str(case.shape)), {})
        cells[case.workers] = f"{1e3 * point.seconds:.1f}"
    for (mode, shape), cells in rows.items():
        yield f"| {mode} | {shape} | " + " | ".join(cells.get(n, "") for n in counts) + " |"


def contention_lines(found: Mapping[Case, Point]) -> Iterator[str]:
    """Yields the lines of a table: CPU time of workers that exchange nothing, one alone = 1."""
    local = {case: point for case, point in found.items() if not case.is_exchanged}
    counts = sorted({case.workers for case in local})
    yield "| workers that only compute, side by side | " + " | ".join(map(str, counts)) + " |"
    yield "|---|" + "---|" * len(counts)
    for mode, shape in dict.fromkeys((case.mode, case.shape) for case in local):
        seconds = {
            c.workers: p.worker for c, p in local.items() if (c.mode, c.shape) == (mode, shape)
        }
        cells = [f"{seconds[n] / seconds[1]:.2f}" if n in seconds else "" for n in counts]
        yield f"| {mode}: {shape} | " + " | ".join(cells) + " |"


def circumstances(found: Mapping[str, Any], points: Iterable[Point]) -> str:
    """Returns two sentences on the date, machine and load of the measurements."""
    others = [point.others for point in points]
    version = found["versions"].get("tensorflow-cpu") or found["versions"].get("tensorflow")
    return (
        f"Measured on {found['date'][:10]}: {found['cores']} cores of an {found['processor']}, "
        f"TensorFlow {version}. Other programs took {statistics.median(others):.2f} cores, at most "
        f"{max(others):.2f}."
    )


def main(_: Sequence[str]) -> None:
    """Prints the tables."""
    files = [json.loads(pathlib.Path(path).read_text("utf-8")) for path in FLAGS.points]
    points = [Point.from_json(each) for file in files for each in file["measured"]]
    found = medians(points)
    parts = ([circumstances(files[-1], points)], step_lines(found), contention_lines(found))
    print("\n\n".join("\n".join(lines) for lines in parts))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_string(
        "points", None, "JSON file of cluster_points; may be repeated.", required=True
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
