"""Time to save and to restore a network with K-FAC's factors.

Compares the Estimator's checkpoints with a plain `tf.compat.v1.train.Saver` of the same variables.
Both use the same session and take turns. They alternate in going first.

    python -m benchmarks.checkpoint_time --network=resnet_v1_50 --rounds=5
"""

import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from absl import flags

from benchmarks import harness

WAYS = ("replicate", "plain Saver")
OPERATIONS = {"save": "save", "restore": "restore", "find, restore": "find_and_restore"}
"""Methods of a `Way`, by name in the table."""

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds of each round, by way of saving."""

FLAGS = flags.FLAGS


def measure(network: str, towers: int, rounds: int, folder: str) -> dict[str, Any]:
    """Times both ways in this process.

    Args:
      network: Network of `examples.slim.networks`.
      towers: Number of towers. There must be as many logical devices.
      rounds: Timed rounds of saving and restoring, after one untimed round.
      folder: Folder of the checkpoints.

    Returns:
      {"times": `Times` by operation, "variables": their number, "numbers": their elements}.
    """
    from benchmarks.checkpoint_time import checkpoint_programs as programs  # noqa: PLC0415

    folders = [pathlib.Path(folder, name) for name in ("replicate", "plain")]
    for path in folders:
        path.mkdir()
    ours, plain = map(str, folders)
    trained = programs.Trained(network, FLAGS.side, towers)
    times: dict[str, dict[str, list[float]]] = {
        operation: {way: [] for way in WAYS} for operation in OPERATIONS
    }
    with trained.graph.as_default():
        ways: tuple[programs.Way, ...] = (
            programs.EstimatorWay(trained, ours),
            programs.PlainWay(trained, plain),
        )
        for turn in range(rounds + 1):
            trained.advance()
            for operation, method in OPERATIONS.items():
                both = {n: programs.Timed(w, method) for n, w in zip(WAYS, ways, strict=True)}
                order = dict(reversed(both.items())) if turn % 2 else both
                for name, seconds in harness.take_turns(order, 1, block=1, warm_up=0).items():
                    times[operation][name] += seconds if turn else []
    return {
        "times": times,
        "variables": trained.variable_count,
        "numbers": trained.number_count,
    }


def lines(network: str, towers: int, found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a table: seconds, and ratios by round."""
    yield (
        f"{network} with K-FAC, towers: {towers}; {found['variables']:,} variables, "
        f"{found['numbers']:,} numbers"
    )
    yield f"{'':<16}" + "".join(f"{way + ' s':>24}" for way in WAYS) + f"{'ratio':>20}"
    times: Mapping[str, Times] = found["times"]
    for operation, by_way in times.items():
        ours, plain = (by_way[way] for way in WAYS)
        yield (
            f"{operation:<16}{harness.spread(ours, 3):>24}{harness.spread(plain, 3):>24}"
            f"{harness.spread(harness.ratios(ours, plain), 2):>20}"
        )


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, then prints, saves and draws the results."""
    harness.divide_cpu(FLAGS.towers)
    with tempfile.TemporaryDirectory(dir=FLAGS.checkpoints) as folder:
        found = measure(FLAGS.network, FLAGS.towers, FLAGS.rounds, folder)
    print("\n".join(lines(FLAGS.network, FLAGS.towers, found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_string("network", "resnet_v1_50", "Network of examples.slim.networks.")
    flags.DEFINE_integer("side", 32, "Side of the images, in pixels.", lower_bound=1)
    flags.DEFINE_integer("towers", 2, "Number of towers.", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "Rounds of saving and restoring.", lower_bound=1)
    flags.DEFINE_string(
        "checkpoints", None, "Folder of the checkpoints, which are removed at the end."
    )
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
