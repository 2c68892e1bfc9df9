"""Scaling of training: measured and simulated steps, and simulated curves to 1,024 workers.

Reads the measurements of `benchmarks.scaling.cluster_points` and of
`benchmarks.scaling.all_reduce_points`, fits the constants of the simulator, and prints Markdown
tables: the constants, the slowdown of processes that share the machine, and the error of the
simulation at each point. The curves are for a network of about the size of ResNet-50, with each
process on its own host. The bandwidth and cores of these hosts are assumptions, given by flags.
Does not need TensorFlow.

    python -m benchmarks.scaling --points=points.json --points=reduce.json \
        --picture=docs/images/scaling.png
"""

import dataclasses
import json
import pathlib
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.scaling import cost_fit, reduce_fit, training_plans
from benchmarks.scaling.cluster_cases import LOCAL_MODES, REDUCE_MODES, Case, Point
from benchmarks.scaling.cost_fit import Comparison
from benchmarks.scaling.training_plans import PLANS, Constants, Costs, Hosts, Training

FLAGS = flags.FLAGS

COUNTS = tuple(2**power for power in range(11))
"""Numbers of workers in the picture."""
NETWORK = Training(
    parameters=102e6,
    tensors=161,
    computing=0.3,
    factors=615e6,
    statistics=0.15,
    inversion=0.9,
    preconditioning=0.05,
)
"""Network with the parameters and factors of ResNet-50. The seconds are assumptions."""

_GOAL = 0.2
_COPIED_NUMBERS = 16_000_000
_REPEATS = 7
_CURVES = {
    "all_reduce": ("#000000", "-"),
    "synchronous": ("#0072B2", "-"),
    "asynchronous": ("#D55E00", "--"),
    "averaging": ("#009E73", "-."),
    "shared": ("#CC79A7", "-"),
    "chief_worker": ("#999999", ":"),
    "dedicated_workers": ("#E69F00", "--"),
}
"""Colour (Okabe and Ito) and line style of each mode."""


def constant_lines(fitted: Constants, copied: float) -> Iterator[str]:
    """Yields the lines of a table of the fitted constants."""
    yield "| constant | per step, µs | per message or tensor, µs | per byte, ns |"
    yield "|---|---|---|---|"
    names = {
        "exchange": "exchange, from begin to end",
        "worker": "of it CPU of the worker",
        "server": "of it CPU of the parameter server",
        "merge": "mean and update at the chief's command",
        "merge_cpu": "of it CPU of all, of each worker's tensor and byte",
        "ring": "all-reduce: sums round a ring of workers",
        "ring_cpu": "of it CPU of each worker",
    }
    for field, name in names.items():
        costs: Costs = getattr(fitted, field)
        if not any(costs):
            continue  # No points of it.
        start, each, byte = 1e6 * costs.start, 1e6 * costs.each, 1e9 * costs.byte
        yield f"| {name} | {start:.0f} | {each:.0f} | {byte:.2f} |"
    yield f"| adding up two towers' gradients | | | {1e9 / copied:.2f} |"


def contention_lines(found: Mapping[Case, Point], cores: float) -> Iterator[str]:
    """Yields the lines of a table: slowdown of workers that share cores and exchange nothing."""
    beside = {
        case: point
        for case, point in found.items()
        if case.mode in LOCAL_MODES and case.workers > 1 and not case.is_tiny
    }
    counts = sorted({case.workers for case in beside})
    yield "| workers that only compute, side by side | " + " | ".join(map(str, counts)) + " |"
    yield "|---|" + "---|" * len(counts)
    busy = [f"{cost_fit.cores_in_use(found, count, cores):.2f}" for count in counts]
    yield f"| cores that they keep busy, of {cores:g} | " + " | ".join(busy) + " |"
    rows: dict[str, dict[int, str]] = {}
    for case, point in beside.items():
        alone = found[dataclasses.replace(case, workers=1)]
        name = f"{case.layers} × {case.width}², {case.batch}{', K-FAC' if case.is_kfac else ''}"
        rows.setdefault(name, {})[case.workers] = f"{point.worker / alone.worker:.2f}"
    for name, cells in rows.items():
        filled = " | ".join(cells.get(count, "") for count in counts)
        yield f"| CPU of a step, alone = 1: {name} | {filled} |"


def comparison_lines(compared: Sequence[Comparison]) -> Iterator[str]:
    """Yields the lines of a table with modes as rows and numbers of workers as columns."""
    counts = sorted({each.case.workers for each in compared})
    yield "| mode | layers × width², batch | " + " | ".join(f"{n}" for n in counts) + " |"
    yield "|---|---|" + "---|" * len(counts)
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for each in compared:
        case = each.case
        cell = f"{1e3 * each.measured:.1f} / {1e3 * each.simulated:.1f} ({100 * each.error:+.0f} %)"
        name = case.mode, f"{case.layers} × {case.width}², {case.batch}"
        rows.setdefault(name, {})[case.workers] = cell
    for (mode, shape), cells in rows.items():
        yield f"| {mode} | {shape} | " + " | ".join(cells.get(n, "") for n in counts) + " |"
    one = [abs(each.error) for each in compared if each.case.workers == 1]
    more = [abs(each.error) for each in compared if each.case.workers > 1]
    yield ""
    yield (
        f"With two workers and more, {_within(more)} points are within 20 %, with one "
        f"{_within(one)}; the largest error is {100 * max(one + more):.0f} %."
    )


def _within(errors: Sequence[float]) -> str:
    return f"{sum(error <= _GOAL for error in errors)} of {len(errors)}"


def speedups(
    fitted: Constants, workers_per_server: int | None, cores: float, gigabits: float
) -> dict[str, list[tuple[int, float]]]:
    """Returns (workers, throughput relative to one worker alone) of each mode."""
    curves: dict[str, list[tuple[int, float]]] = {}
    modes = _CURVES if any(fitted.ring) else [mode for mode in _CURVES if mode != "all_reduce"]
    for mode in modes:
        for count in COUNTS:
            if mode == "dedicated_workers" and count < 3:
                continue
            servers = max(1, count // workers_per_server) if workers_per_server else 1
            hosts = Hosts(servers, cores, gigabits * 1e9 / 8, latency=1e-4)
            plan = PLANS[mode](NETWORK, count)
            seconds = training_plans.seconds_per_step(plan, fitted, hosts)
            gain = plan.gradients * NETWORK.computing / seconds
            curves.setdefault(mode, []).append((count, gain))
    return curves


def draw(path: str, panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]) -> None:
    """Draws the curves of all modes to a PNG file, with a panel for each title."""
    from matplotlib import figure  # noqa: PLC0415

    picture = figure.Figure(figsize=(5 * len(panels), 4.2), layout="constrained")
    every = np.atleast_1d(picture.subplots(1, len(panels), sharey=True))
    for axes, (title, curves) in zip(every, panels.items(), strict=True):
        axes.plot(COUNTS, COUNTS, color="#CCCCCC", linewidth=1)
        for mode, curve in curves.items():
            color, dashes = _CURVES[mode]
            axes.plot(*zip(*curve, strict=True), color=color, linestyle=dashes, label=mode)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(COUNTS, [str(count) for count in COUNTS], fontsize="small")
        axes.set_yticks(COUNTS, [str(count) for count in COUNTS], fontsize="small")
        axes.set_ylim(0.25, 1.2 * COUNTS[-1])
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("workers")
        axes.grid(color="#EEEEEE")
        axes.spines[["top", "right"]].set_visible(False)
    every[0].set_ylabel("gradients per second, one worker alone = 1")
    every[0].legend(fontsize="small", frameon=False)
    picture.savefig(path, dpi=120)


def copied_bytes_per_second() -> float:
    """Measures the bytes per second at which one thread adds an array to another."""
    total, part = np.zeros(_COPIED_NUMBERS, "float32"), np.ones(_COPIED_NUMBERS, "float32")
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        np.add(total, part, out=total)
        seconds.append(time.perf_counter() - start)
    return part.nbytes / min(seconds)


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
    """Fits the constants, prints the tables and draws the curves."""
    files = [json.loads(pathlib.Path(path).read_text("utf-8")) for path in FLAGS.points]
    points = [Point.from_json(each) for file in files for each in file["measured"]]
    every = cost_fit.medians(points)
    found = {case: point for case, point in every.items() if case.mode not in REDUCE_MODES}
    reduced = {case: point for case, point in every.items() if case.mode in REDUCE_MODES}
    fitted = cost_fit.constants(found, files[-1]["cores"])
    compared = cost_fit.compare(found, fitted)
    if reduced:
        fitted = reduce_fit.constants(reduced, fitted)
        compared += reduce_fit.compare(reduced, fitted)
    print(circumstances(files[-1], points), end="\n\n")
    print("\n".join(constant_lines(fitted, copied_bytes_per_second())), end="\n\n")
    print("\n".join(contention_lines(found, fitted.cores)), end="\n\n")
    print("\n".join(comparison_lines(compared)))
    if FLAGS.picture:
        assumed = FLAGS.server_cores, FLAGS.gigabits
        per = FLAGS.workers_per_server
        panels = {
            "one parameter server": speedups(fitted, None, *assumed),
            f"a parameter server for {per} workers": speedups(fitted, per, *assumed),
        }
        draw(FLAGS.picture, panels)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_string(
        "points",
        None,
        "JSON file of cluster_points or all_reduce_points; may be repeated.",
        required=True,
    )
    flags.DEFINE_string("picture", None, "PNG file to draw the curves to.")
    flags.DEFINE_integer(
        "workers_per_server", 4, "Workers for each server in the second panel.", lower_bound=1
    )
    flags.DEFINE_float("server_cores", 8, "Cores of each parameter server's host.", lower_bound=1)
    flags.DEFINE_float("gigabits", 10, "Bandwidth of each host's link, Gbit/s.", lower_bound=0.1)


if __name__ == "__main__":
    define_flags()
    app.run(main)
