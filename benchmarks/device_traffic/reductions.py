"""Bytes that gradients send between GPUs and CPU, for each reduction of gradients.

Prints a table in Markdown. Only the gradients are counted: the tensors that go to the operations
that sum them. "Transfers" is the largest number of tensors of more than 1 KiB, among these, that
cross one after another.

    python -m benchmarks.device_traffic.reductions --model=resnet_v1_50 --towers=4
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple, get_args

from absl import flags

from benchmarks import harness
from benchmarks.device_traffic.traffic import CPU, Traffic

SCOPE = "gradient_aggregating"
"""Name scope of the operations that sum gradients."""
PLACEMENTS = ("local", "round_robin")
HEADS = (
    "variables",
    "towers",
    "reduction",
    "all",
    "largest link",
    "into the CPU",
    "into a GPU, at most",
    "out of a GPU, at most",
    "between halves of the GPUs",
    "transfers",
)

FLAGS = flags.FLAGS


class Measured(NamedTuple):
    """Traffic of a step with one reduction."""

    variables: str
    towers: int
    reduction: str
    traffic: Traffic


def row(measured: Measured, unit: float) -> str:
    """Returns a line of the table."""
    found = measured.traffic.links(SCOPE)
    gpus = [f"GPU:{index}" for index in range(measured.towers)]
    sizes = [
        sum(found.values()),
        max(found.values(), default=0),
        found.received(CPU),
        max(found.received(gpu) for gpu in gpus),
        max(found.sent(gpu) for gpu in gpus),
        found.between_halves(measured.towers),
    ]
    cells = [
        measured.variables,
        measured.towers,
        f"`{measured.reduction}`",
        *(f"{size / unit:.1f}" for size in sizes),
        measured.traffic.transfers,
    ]
    return harness.markdown_row(cells)


def measure(
    model: str, towers: Sequence[int], placements: Sequence[str] = PLACEMENTS
) -> Iterator[Measured]:
    """Yields the traffic of a model's step with each placement, number of towers and reduction."""
    from benchmarks.device_traffic import steps  # noqa: PLC0415
    from model_deploy import GradientReduction  # noqa: PLC0415

    for variables in placements:
        for count in towers:
            for reduction in get_args(GradientReduction):
                step = dataclasses.replace(
                    steps.REDUCED[model], variables=variables, reduction=reduction
                )
                yield Measured(variables, count, reduction, steps.step_traffic(step, count, SCOPE))


def main(_: Sequence[str]) -> None:
    """Prints the table of one model."""
    name, unit = ("MB", 1e6) if FLAGS.model.startswith("resnet") else ("kB", 1e3)
    print(f"{FLAGS.model}, bytes in {name}")
    print(harness.markdown_row(HEADS))
    print(f"|{'---|' * len(HEADS)}")
    for measured in measure(FLAGS.model, FLAGS.towers, FLAGS.variables or PLACEMENTS):
        print(row(measured, unit), flush=True)


if __name__ == "__main__":
    flags.DEFINE_enum("model", "convnet", ["convnet", "resnet_v1_50"], "Model to measure.")
    flags.DEFINE_multi_integer("towers", [2, 4, 8], "Towers, each on its own GPU.", lower_bound=2)
    flags.DEFINE_multi_enum("variables", [], PLACEMENTS, "Placements; may be repeated.")
    harness.run(main)
