"""Memory that K-FAC keeps on each GPU, by number of towers, found without a GPU.

The graph of a training step is built for each number of towers; nothing runs. The first table has
a row for each device: megabytes of averages and inverses, the share of the work of all inverses,
and what the device receives. The second tells which factors need the memory.

    python -m benchmarks.kfac_memory --towers=4 --json=runs/kfac_memory.json
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.kfac_memory.device_memory import FactorMemory, Memory

TOWERS = (1, 2, 4, 8)
SHOWN = 8
"""Number of sizes of factors in the second table."""

FLAGS = flags.FLAGS


DEVICE_TITLES = (
    "towers",
    "device",
    "averages, MB",
    "inverses, MB",
    "together, MB",
    "work of inverses",
    "packed sums received, MB",
    "with these, MB",
    "averages fetched, MB",
    "velocities, MB",
)


def device_lines(towers: int, memory: Memory) -> Iterator[str]:
    """Yields a line of a Markdown table for each device."""
    work = sum(each.cost for each in memory.devices.values())
    for name, each in memory.devices.items():
        share = each.cost / work if work else 0.0
        sizes = (each.averages, each.inverses, each.kept)
        moved = (each.received, each.needed, each.fetched, each.velocities)
        cells = (towers, name, *map(_mb, sizes), f"{share:.0%}", *map(_mb, moved))
        yield harness.markdown_row(cells)


def factor_lines(factors: Mapping[int, Sequence[FactorMemory]], shown: int) -> Iterator[str]:
    """Yields the lines of a Markdown table of the factors that need most memory, by rows.

    The last of the rows that are shown has all others.
    """
    yield from _head("rows", "factors", "averages and inverses, MB", "of all", "work", "such as")
    every = [each for group in factors.values() for each in group]
    groups = {str(rows): group for rows, group in list(factors.items())[:shown]}
    rest = [each for group in list(factors.values())[shown:] for each in group]
    if rest:
        groups["others"] = rest
    kept, work = _kept(every), sum(each.cost for each in every)
    for rows, group in groups.items():
        share = sum(each.cost for each in group) / work if work else 0.0
        size = _kept(group)
        example = f"`{group[0].name}`"
        cells = (rows, len(group), _mb(size), f"{size / kept:.0%}", f"{share:.0%}", example)
        yield harness.markdown_row(cells)


def record(memory: Memory) -> dict[str, object]:
    """Returns the memory as a value that JSON can represent."""
    return {
        "devices": {name: each._asdict() for name, each in memory.devices.items()},
        "factors": [each._asdict() for each in memory.factors],
    }


def _kept(factors: Sequence[FactorMemory]) -> int:
    return sum(each.kept for each in factors)


def _head(*titles: str) -> Iterator[str]:
    yield harness.markdown_row(titles)
    yield "|" + "---|" * len(titles)


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f}"


def main(_: Sequence[str]) -> None:
    """Builds the steps, then prints and saves their memory."""
    from benchmarks.kfac_memory import device_memory, training_step  # noqa: PLC0415

    settings = training_step.Settings(
        network=FLAGS.network,
        image_size=FLAGS.image_size,
        classes=FLAGS.classes,
        batch_per_tower=FLAGS.batch_per_tower,
        scale_and_shift=FLAGS.scale_and_shift,
    )
    found = {}
    print("\n".join(_head(*DEVICE_TITLES)))
    for towers in FLAGS.towers or TOWERS:
        found[towers] = device_memory.memory(training_step.build(settings, towers))
        print("\n".join(device_lines(towers, found[towers])), flush=True)
    factors = device_memory.by_rows(found[towers].factors)
    print("\n".join(["", *factor_lines(factors, SHOWN)]))
    if FLAGS.json:
        records = {str(towers): record(memory) for towers, memory in found.items()}
        harness.write_record(FLAGS.json, {"settings": dataclasses.asdict(settings), **records})


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_integer(
        "towers", [], "Number of towers; may be repeated. Default: 1, 2, 4 and 8.", lower_bound=1
    )
    flags.DEFINE_string("network", "resnet_v1_50", "Network of examples/slim.")
    flags.DEFINE_integer("image_size", 224, "Height and width of images.", lower_bound=1)
    flags.DEFINE_integer("classes", 1000, "Number of classes.", lower_bound=2)
    flags.DEFINE_integer("batch_per_tower", 32, "Images of each tower.", lower_bound=1)
    flags.DEFINE_enum(
        "scale_and_shift", "full", ["full", "diagonal"], "Approximation of batch normalization's."
    )
    flags.DEFINE_string("json", None, "File to write the measurements to.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
