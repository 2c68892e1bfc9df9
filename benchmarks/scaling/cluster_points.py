"""Time and cost of a step on a small cluster of real processes.

One parameter server and up to four workers on 127.0.0.1 train chains of layers in the modes of
`benchmarks.scaling.cluster_cases`. Each case is measured for about a second after it has settled:
time per step, CPU seconds of workers and server, bytes. Run it on an otherwise idle machine.
`benchmarks.scaling` reads the result.

    python -m benchmarks.scaling.cluster_points --workers=4 --json=points.json
"""

import time
from collections.abc import Iterator, Sequence

from absl import flags

from benchmarks import harness
from benchmarks.scaling import cluster_cases, cluster_processes
from benchmarks.scaling.cluster_cases import Point

FLAGS = flags.FLAGS


def measure(workers: int, settle: float, window: float, tries: int) -> Iterator[Point]:
    """Yields the measurements of each case."""
    with cluster_processes.Cluster(workers) as cluster:
        for case in cluster_cases.all_cases(workers):
            yield cluster.run(case, settle, window, tries)


def line(point: Point) -> str:
    """Formats the measurements of a case as a line of text."""
    case = point.case
    return (
        f"{case.mode:<17} {case.shape!s:<16}{case.workers:>2} workers {1e3 * point.seconds:>8.2f}"
        f" ms   CPU ms: worker {1e3 * point.worker:>7.2f}, server {1e3 * point.server:>7.2f}"
        f"   {point.sent / 1e6:>7.2f} MB   others {point.others:>4.2f} cores"
    )


def main(_: Sequence[str]) -> None:
    """Runs the measurements, then prints and saves them."""
    started = time.monotonic()
    found = []
    for point in measure(FLAGS.workers, FLAGS.settle_secs, FLAGS.window_secs, FLAGS.tries):
        print(line(point), flush=True)
        found.append(point)
    print(f"{time.monotonic() - started:.0f} seconds")
    if FLAGS.json:
        harness.write_record(FLAGS.json, [point.as_json() for point in found])


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_integer("workers", 4, "Greatest number of workers.", lower_bound=1)
    flags.DEFINE_float("settle_secs", 0.3, "Seconds before the measured window.", lower_bound=0)
    flags.DEFINE_float("window_secs", 1.2, "Seconds of the measured window.", lower_bound=0.1)
    flags.DEFINE_integer(
        "tries", 4, "Maximum windows until other programs are quiet.", lower_bound=1
    )
    flags.DEFINE_string("json", None, "File to write the measurements to.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
