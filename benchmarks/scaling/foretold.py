"""Tables of the simulator: bytes and utilization by size, by link, and by failures.

    python -m benchmarks.scaling.foretold
    python -m benchmarks.scaling.foretold --measured=FILE.json --megabits=100

The second compares it with what `python -m benchmarks.scaling --json=FILE.json` has measured on
this machine. `--megabits` is the speed of a link that all processes shared.
"""

import json
import math
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import app, flags

from benchmarks.harness import table
from benchmarks.scaling.chains import INTERVAL, ROUNDS, Shape
from benchmarks.scaling.simulator import Cost, Job, Link, Outcome, round_bytes, simulate

LINKS = {
    "10 Gbit/s, 0.05 ms": Link(1.25e9, 50e-6),
    "1 Gbit/s, 0.5 ms": Link(1.25e8, 0.5e-3),
    "100 Mbit/s, 50 ms": Link(1.25e7, 0.05),
}


class Way(NamedTuple):
    """A way of training: settings of a `Job`."""

    every: int = 1
    bits: int = 32
    fragments: int = 1
    delay: int = 0


WAYS = {
    "every step": Way(),
    "H = 100": Way(100),
    "H = 100, 4 bits": Way(100, 4),
    "H = 100, 4 bits, 10 fragments, 5 steps later": Way(100, 4, 10, 5),
}
STEP = 2.28e-9
"""Seconds of a step for each weight: INTELLECT-1 (arXiv 2412.01152) made 100 steps with 10^10
weights in 38 minutes."""
STEPS = 2000
HERE = Cost(start=2.5e-3, message=118e-6, byte=2.03e-9, coded=6.3e-9)
"""Costs on the machine of docs/explanations/scaling.md, 2 cores of an AMD EPYC; bits are 4."""

_SUPERSCRIPTS = str.maketrans("0189", "⁰¹⁸⁹")

FLAGS = flags.FLAGS


def job(way: Way, workers: int, weights: float, **others: Any) -> Job:
    """Returns a job whose step takes as long for its weights as one of INTELLECT-1."""
    return Job(workers, weights, STEP * weights, **way._asdict(), **others)


def sizes() -> Iterator[str]:
    """Yields the lines of a table of utilizations by weights, workers and link, way by way."""
    rows = []
    for exponent in (8, 9, 10, 11):
        weights, name = 10.0**exponent, "10" + str(exponent).translate(_SUPERSCRIPTS)
        for workers in (8, 64, 1024):
            gigabytes = round_bytes(job(Way(), workers, weights)) / 1e9
            cells = [
                " / ".join(percents(job(way, workers, weights, link=link) for way in WAYS.values()))
                for link in LINKS.values()
            ]
            rows.append([name, workers, gigabytes, *cells])
    return table(("weights", "workers", "GB of a step", *LINKS), rows)


def percents(jobs: Any) -> list[str]:
    """Returns the utilization of each job in percent."""
    return [f"{100 * simulate(each, STEPS).utilization:.0f}" for each in jobs]


def troubles() -> Iterator[str]:
    """Yields the lines of a table of utilizations with slow steps and with failures."""
    slow = {"slow": (0.01, 5.0)}
    failing = {"lifetime": 7 * 24 * 3600.0, "restart": 600.0}
    cases = {
        "nothing happens": {},
        "one step of 100 takes five times as long": slow,
        "a worker fails once a week, all start again": failing,
        "the same, the others go on": {**failing, "notice": 10.0},
    }
    counts = (8, 64, 1024)
    rows = []
    for name, others in cases.items():
        cells = []
        for workers in counts:
            link = Link(1.25e11)
            jobs = [Job(workers, 1e9, 2.3, link, every, **others) for every in (1, 100)]
            found = [simulate(each, 20_000).utilization for each in jobs]
            cells.append(" / ".join(f"{100 * each:.0f}" for each in found))
        rows.append([name, *cells])
    return table(("", *(f"n = {n}: every step / H = 100" for n in counts)), rows)


def megabits_for(utilization: float, workers: int, weights: float, way: Way) -> float:
    """Returns the speed of a link, in Mbit/s, at which rounds leave a utilization."""
    given = job(way, workers, weights)
    seconds = given.every * given.step * (1 / utilization - 1)
    return 8e-6 * round_bytes(given) / seconds


def compared(records: Sequence[Sequence[Any]], megabits: float) -> Iterator[str]:
    """Yields lines of measured and foretold milliseconds of a step, by mode and workers."""
    rows = []
    medians = {(mode, n): sorted(secs)[len(secs) // 2] for mode, *_, n, secs in records}
    for (mode, workers), seconds in medians.items():
        shape = next(Shape(*each[1:4]) for each in records if each[0] == mode)
        alone = medians["all_reduce", 1]
        outcome = foretell(mode, workers, shape, alone, megabits)
        found = outcome.seconds / STEPS
        cells = (f"{1e3 * seconds:.1f}", f"{1e3 * found:.1f}", f"{found / seconds:.2f}")
        rows.append([mode, workers, *cells])
    return table(("mode", "workers", "measured", "foretold", "ratio"), rows)


def foretell(mode: str, workers: int, shape: Shape, alone: float, megabits: float) -> Outcome:
    """Simulates a mode of `benchmarks.scaling`, given the seconds of a step of one worker."""
    link = Link(megabits * 1.25e5 / workers if megabits else math.inf)
    rounds = {"every": INTERVAL, **ROUNDS[mode]} if mode in ROUNDS else {}
    weights = shape.layers * shape.width**2
    case = Job(workers, weights, alone, link, cost=HERE, cores=os.cpu_count(), **rounds)
    return simulate(case, STEPS)


def main(_: Sequence[str]) -> None:
    """Prints the tables."""
    if FLAGS.measured:
        record = json.loads(pathlib.Path(FLAGS.measured).read_text(encoding="utf-8"))
        print("\n".join(compared(record["measured"], FLAGS.megabits)))
        return
    print("\n".join([*sizes(), "", *troubles(), ""]))
    for utilization in (0.96, 0.83):
        needed = megabits_for(utilization, 14, 1e10, Way(100, 8))
        print(f"14 workers, 1e10 weights, H = 100, 8 bits: {utilization} at {needed:.0f} Mbit/s")


if __name__ == "__main__":
    flags.DEFINE_string("measured", None, "JSON file of `benchmarks.scaling` to compare with.")
    flags.DEFINE_float("megabits", 0, "Mbit/s of the link that all processes shared; 0 for none.")
    app.run(main)
