"""K-FAC on residual networks, compared with momentum SGD: time of a step, and memory.

Both optimizers train in one process, in short alternating blocks, so that other load slows both.
For the memory each has a process of its own.

    python -m benchmarks.resnet_kfac --network=resnet20 --steps=100
"""

import json
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
    """Times and memory of both optimizers on a network.

    Attributes:
      seconds: Seconds of each step after the first blocks, by optimizer.
      peaks: Peak bytes beyond TensorFlow's own, by optimizer; empty if not measured.
    """

    seconds: Mapping[str, Sequence[float]]
    peaks: Mapping[str, int]

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


def peak_here(network: str, optimizer: str) -> dict[str, int]:
    """Trains in this process; returns its peak bytes with and without the training."""

    def train() -> None:
        from benchmarks.resnet_kfac import step_times  # noqa: PLC0415

        program = step_times.Program(network, optimizer, FLAGS.batch_size, FLAGS.curvature_share)
        program.seconds(BLOCK + 1)

    return harness.peaks_of(train)


def peaks_elsewhere(network: str) -> dict[str, int]:
    """Returns the peak bytes beyond TensorFlow's own, by optimizer.

    Call it before this process trains anything: a process begins with the peak of its parent.
    """
    peaks = {}
    for optimizer in OPTIMIZERS:
        options = [
            f"--network={network}",
            f"--here={optimizer}",
            f"--batch_size={FLAGS.batch_size}",
            f"--curvature_share={FLAGS.curvature_share}",
        ]
        command = harness.command("resnet_kfac", *options)
        found = harness.read_json(command, f"find the peak of {optimizer} on {network}")
        peaks[optimizer] = found["peak"] - found["alone"]
    return peaks


def lines(measurements: Mapping[str, Measurement]) -> Iterator[str]:
    """Yields the lines of a table, times as "median [smallest, largest]"."""
    yield (
        f"{'network':<10}{'momentum ms':>24}{'K-FAC ms':>24}{'ratio':>20}"
        f"{'slowest / median step':>40}{'MB':>14}{'ratio':>7}"
    )
    for network, found in measurements.items():
        times = [[1e3 * t for t in _block_means(found.seconds[name])] for name in OPTIMIZERS]
        slowest = ", ".join(f"{value:.2f} {kind}" for kind, value in found.slowest.items())
        yield (
            f"{network:<10}{harness.spread(times[0], 0):>24}{harness.spread(times[1], 0):>24}"
            f"{harness.spread(found.ratios, 2):>20}{slowest:>40}{_memory(found.peaks)}"
        )


def _memory(peaks: Mapping[str, int]) -> str:
    if not peaks:
        return ""
    momentum, kfac = (peaks[name] for name in OPTIMIZERS)
    shown = f"{momentum / 1e6:.0f}, {kfac / 1e6:.0f}"
    return f"{shown:>14}{kfac / momentum:>7.2f}"


def _block_means(seconds: Sequence[float]) -> list[float]:
    blocks = [seconds[start : start + BLOCK] for start in range(0, len(seconds), BLOCK)]
    return [statistics.mean(block) for block in blocks]


def main(_: Sequence[str]) -> None:
    """Measures the chosen networks, then prints, saves and draws the results."""
    if FLAGS.here:
        print(json.dumps(peak_here(FLAGS.network[0], FLAGS.here)))
        return
    peaks = {name: peaks_elsewhere(name) if FLAGS.memory else {} for name in FLAGS.network}
    measurements = {name: Measurement(step_seconds(name), peaks[name]) for name in FLAGS.network}
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
    flags.DEFINE_bool("memory", True, "Also measure memory, in processes of their own.")
    flags.DEFINE_enum("here", None, OPTIMIZERS, "Print the peak of one optimizer as JSON.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
