"""Time to build the training graph of ResNet-50 with 1 to 16 towers, compared with towers by hand.

Both graphs are built in one process, in turn. No step is run.

    python -m benchmarks.graph_build --towers=1 --towers=8 --repeats=5
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness

BATCH_PER_TOWER = 2
SIDE = 64

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds of each repeat, by way of building: "replicated", "by hand"."""

FLAGS = flags.FLAGS


def measure(network: str, towers: int, repeats: int) -> dict[str, list[float]]:
    """Builds both graphs in turn and returns the seconds of each build."""
    from benchmarks.tower_step import tower_models, tower_programs  # noqa: PLC0415

    model = tower_models.Network(network, SIDE, BATCH_PER_TOWER * towers)
    devices = harness.cpu_names(towers)
    ways = {
        "replicated": tower_programs.GraphBuild(model, devices, tower_programs.replicated),
        "by hand": tower_programs.GraphBuild(model, devices, tower_programs.by_hand),
    }
    return harness.take_turns(ways, repeats, block=1, warm_up=0)


def lines(found: Mapping[int, Times]) -> Iterator[str]:
    """Yields the lines of a table, one for each number of towers."""
    yield f"{'towers':>6}{'replicated s':>24}{'by hand s':>24}{'ratio':>20}{'s per tower':>14}"
    for towers, times in found.items():
        ours, theirs = times.values()
        yield (
            f"{towers:>6}{harness.spread(ours, 2):>24}{harness.spread(theirs, 2):>24}"
            f"{harness.spread(harness.ratios(ours, theirs), 2):>20}"
            f"{statistics.median(ours) / towers:>14.2f}"
        )


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, then prints, saves and draws the results."""
    harness.divide_cpu(max(FLAGS.towers))
    measure(FLAGS.network, towers=1, repeats=1)  # Warm-up: one-time work of TensorFlow.
    found = {n: measure(FLAGS.network, n, FLAGS.repeats) for n in FLAGS.towers}
    print("\n".join(lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_integer(
        "towers", [1, 2, 4, 8, 16], "Number of towers; may be repeated.", lower_bound=1
    )
    flags.DEFINE_string("network", "resnet_v1_50", "Network of examples.slim.networks.")
    flags.DEFINE_integer("repeats", 3, "Builds of each graph.", lower_bound=1)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
