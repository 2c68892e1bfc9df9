"""Time of a step of K-FAC on residual networks, compared with momentum SGD.

Both optimizers train in one process, in short alternating blocks, so that other load slows both.
Their memory is a question for `benchmarks.memory`.

    python -m benchmarks.resnet_kfac --network=resnet20 --steps=100
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness
from benchmarks.resnet_kfac import AVERAGE_EVERY, NETWORK_NAMES, OPTIMIZERS

BLOCK = AVERAGE_EVERY
"""Steps in a block: the first of them updates the averages."""

FLAGS = flags.FLAGS


class Measurement(NamedTuple):
    """Seconds of each step on a network after the first blocks, by optimizer."""

    seconds: Mapping[str, Sequence[float]]

    @property
    def ratios(self) -> list[float]:
        """K-FAC divided by momentum, by pair of blocks."""
        momentum, kfac = (_block_means(self.seconds[name]) for name in OPTIMIZERS)
        return harness.ratios(kfac, momentum)

    @property
    def slowest(self) -> dict[str, float]:
        """The slowest step of K-FAC, with and without averages, divided by the median step."""
        seconds = self.seconds["K-FAC"]
        median = statistics.median(seconds)
        with_averages = seconds[::BLOCK]
        others = [value for index, value in enumerate(seconds) if index % BLOCK]
        return {
            "with averages": max(with_averages) / median,
            "without": max(others) / median,
        }


def step_seconds(network: str) -> dict[str, list[float]]:
    """Returns the seconds of each step of both optimizers, timed in alternating blocks."""
    from benchmarks.resnet_kfac import step_times  # noqa: PLC0415

    programs = {
        name: step_times.Program(network, name, FLAGS.batch_size, FLAGS.curvature_share)
        for name in OPTIMIZERS
    }
    seconds: dict[str, list[float]] = {name: [] for name in OPTIMIZERS}
    for program in programs.values():
        program.seconds(BLOCK)
    for _ in range(0, FLAGS.steps, BLOCK):
        for name, program in programs.items():
            seconds[name] += program.seconds(BLOCK)
    return seconds


def lines(measurements: Mapping[str, Measurement]) -> Iterator[str]:
    """Yields the lines of a table, times as "median [smallest, largest]"."""
    yield (
        f"{'network':<10}{'momentum ms':>24}{'K-FAC ms':>24}{'ratio':>20}"
        f"{'slowest / median step':>40}"
    )
    for network, found in measurements.items():
        times = [[1e3 * t for t in _block_means(found.seconds[name])] for name in OPTIMIZERS]
        slowest = ", ".join(f"{value:.2f} {kind}" for kind, value in found.slowest.items())
        yield (
            f"{network:<10}{harness.spread(times[0], 0):>24}{harness.spread(times[1], 0):>24}"
            f"{harness.spread(found.ratios, 2):>20}{slowest:>40}"
        )


def _block_means(seconds: Sequence[float]) -> list[float]:
    blocks = [seconds[start : start + BLOCK] for start in range(0, len(seconds), BLOCK)]
    return [statistics.mean(block) for block in blocks]


def main(_: Sequence[str]) -> None:
    """Measures the chosen networks, then prints and saves the results."""
    measurements = {name: Measurement(step_seconds(name)) for name in FLAGS.network}
    print("\n".join(lines(measurements)))
    harness.save({network: found._asdict() for network, found in measurements.items()})


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum(
        "network", ["resnet20", "resnet50"], NETWORK_NAMES, "Network; may be repeated."
    )
    flags.DEFINE_integer("batch_size", 0, "Examples in a batch. 0: the usual number.", 0)
    flags.DEFINE_float(
        "curvature_share", 1.0, "Share of the examples in K-FAC's averages, above 0.", 0.001, 1.0
    )
    flags.DEFINE_integer("steps", 100, "Timed steps of each optimizer, a multiple of 10.", 10)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
