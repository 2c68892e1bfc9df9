"""Time of a step of K-FAC on residual networks, compared with momentum SGD.

Both optimizers train in one process, in short alternating blocks, so that other load slows both.
Their memory is a question for `benchmarks.memory`.

    python -m benchmarks.resnet_kfac --network=resnet20 --steps=100
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from absl import flags

from benchmarks import harness
from benchmarks.resnet_kfac import AVERAGE_EVERY, NETWORK_NAMES, OPTIMIZERS

BLOCK = AVERAGE_EVERY
"""Steps in a block: the first of them updates the averages."""

FLAGS = flags.FLAGS


def step_seconds(network: str) -> dict[str, list[float]]:
    """Returns the seconds of each step of both optimizers, timed in alternating blocks."""
    from benchmarks.resnet_kfac import step_times  # noqa: PLC0415

    programs = {
        name: step_times.Program(network, name, FLAGS.batch_size, FLAGS.curvature_share)
        for name in OPTIMIZERS
    }
    seconds: dict[str, list[float]] = {name: [] for name in OPTIMIZERS}
    for program in programs.values():
        program.run(BLOCK)
    for _ in range(0, FLAGS.steps, BLOCK):
        for name, program in programs.items():
            seconds[name] += [program.run(1) for _ in range(BLOCK)]
    return seconds


def slowest(seconds: Sequence[float]) -> dict[str, float]:
    """Returns the slowest step, with and without averages, divided by the median step."""
    median = statistics.median(seconds)
    others = [value for index, value in enumerate(seconds) if index % BLOCK]
    return {"with averages": max(seconds[::BLOCK]) / median, "without": max(others) / median}


def block_means(seconds: Sequence[float]) -> list[float]:
    """Returns the mean of each block."""
    blocks = [seconds[start : start + BLOCK] for start in range(0, len(seconds), BLOCK)]
    return [statistics.mean(block) for block in blocks]


def lines(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    """Yields the lines of a table, times as "median [smallest, largest]" of blocks."""
    rows = []
    for network, seconds in found.items():
        series = [[1e3 * mean for mean in block_means(seconds[name])] for name in OPTIMIZERS]
        cells = [harness.spread(each, 0) for each in series]
        ratio = harness.spread(harness.ratios(*reversed(series)), 2)
        peaks = ", ".join(f"{x:.2f} {kind}" for kind, x in slowest(seconds["K-FAC"]).items())
        rows.append([network, *cells, ratio, peaks])
    heads = ("network", "momentum, ms", "K-FAC, ms", "ratio", "slowest / median step")
    return harness.table(heads, rows)


def main(_: Sequence[str]) -> None:
    """Measures the chosen networks, then prints and saves the results."""
    found = {name: step_seconds(name) for name in FLAGS.network}
    print("\n".join(lines(found)))
    harness.save({network: {"seconds": seconds} for network, seconds in found.items()})


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    usual = ["resnet20", "resnet50"]
    flags.DEFINE_multi_enum("network", usual, NETWORK_NAMES, "Network; may be repeated.")
    flags.DEFINE_integer("batch_size", 0, "Examples in a batch. 0: the usual number.", 0)
    flags.DEFINE_float("curvature_share", 1.0, "Share of the examples in averages.", 1e-3, 1.0)
    flags.DEFINE_integer("steps", 100, "Timed steps of each optimizer, a multiple of 10.", 10)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
