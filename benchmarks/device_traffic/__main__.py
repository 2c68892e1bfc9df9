"""Traffic between devices in training steps of towers on GPUs, found without a GPU.

The table also has the bytes of the variables on the fullest GPU, K-FAC's among them. `--details`
lists the tensors that cross, the waits, the operations and variables of each device, and the
operations without a GPU kernel.

With `--reductions`, the table compares the reductions of gradients. Only gradients are counted: the
tensors that go to the operations that sum them. "Transfers" is the largest number of tensors of
more than 1 KiB, among these, that cross one after another.

    python -m benchmarks.device_traffic --step=kfac --details
    python -m benchmarks.device_traffic --reductions=resnet_v1_50 --towers=4 --towers=8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from absl import flags

from benchmarks import harness
from examples.lazy_module import LazyModule

steps = LazyModule("benchmarks.device_traffic.steps")
model_deploy = LazyModule("model_deploy")
traffic = LazyModule("benchmarks.device_traffic.traffic")


ROUTES = ("CPU>GPU", "GPU>CPU", "GPU>GPU")
SCOPE = "gradient_aggregating"
"""Name scope of the operations that sum gradients."""
STEP_HEADS = (
    *("step", "towers", *(f"{route}, kB" for route in ROUTES)),
    *("waits", "rounds", "no kernel", "variables, MB"),
)
REDUCTION_HEADS = (
    *("towers", "reduction", "all", "largest link", "into the CPU", "into a GPU, at most"),
    *("out of a GPU, at most", "between halves of the GPUs", "transfers"),
)

FLAGS = flags.FLAGS


def step_row(name: str, towers: int, found: traffic.Traffic) -> list[object]:
    """Returns the cells of a step."""
    sent = (f"{found.sent(route) / 1e3:.1f}" for route in ROUTES)
    kept = max((size for device, size in found.kept.items() if device != "CPU:0"), default=0)
    counts = len(found.waits), found.rounds, len(found.strays)
    return [name, towers, *sent, *counts, f"{kept / 1e6:.2f}"]


def reduction_row(towers: int, reduction: str, found: traffic.Traffic, unit: float) -> list[object]:
    """Returns the cells of a reduction."""
    links = found.links(SCOPE)
    gpus = [f"GPU:{index}" for index in range(towers)]
    every, halves = [traffic.CPU, *gpus], (gpus[: towers // 2], gpus[towers // 2 :])
    sizes = (
        traffic.flow(links, every, every),
        max(links.values(), default=0),
        traffic.flow(links, every, [traffic.CPU]),
        max(traffic.flow(links, every, [gpu]) for gpu in gpus),
        max(traffic.flow(links, [gpu], every) for gpu in gpus),
        max(traffic.flow(links, *halves), traffic.flow(links, *halves[::-1])),
    )
    cells = [f"{size / unit:.1f}" for size in sizes]
    return [towers, f"`{reduction}`", *cells, found.transfers]


def details(found: traffic.Traffic) -> Iterator[str]:
    """Yields a line for each large tensor that crosses, wait, device and missing kernel."""
    large = [each for each in found.crossings if traffic.is_large(each.bytes)]
    for title, crossings in (("crosses", large), ("wait", found.waits)):
        for each in crossings:
            size = "?" if each.bytes is None else each.bytes
            consumers = ", ".join(each.consumers[:2])
            route = f"{each.source} > {each.target}"
            yield f"  {title:<10}{route:<16}{size:>10} B  {each.kind} {each.name} for {consumers}"
    for device, count in sorted(found.operations.items()):
        size = found.kept.get(device, 0)
        yield f"  device     {device:<16}{count:>7} operations, {size} B of variables"
    yield from (f"  no kernel  {stray}" for stray in found.strays)


def main(_: Sequence[str]) -> None:
    """Measures the chosen steps, or reductions, then prints and saves the results."""
    record, rows, notes = {}, [], []
    heads = REDUCTION_HEADS if FLAGS.reductions else STEP_HEADS
    unknown = set(FLAGS.step) - set(steps.NAMES)
    if unknown:
        raise SystemExit(f"No steps: {sorted(unknown)}. Accepted are {', '.join(steps.NAMES)}.")
    names = FLAGS.step or steps.NAMES
    if FLAGS.reductions:
        names = get_args(model_deploy.GradientReduction)
    for towers in FLAGS.towers:
        for name in names:
            if FLAGS.reductions:
                placed = {"variables": FLAGS.variables, "reduction": name}
                step = steps.Step(FLAGS.reductions, placed=placed)
                found = steps.traffic(step, towers, SCOPE)
                unit = 1e6 if FLAGS.reductions.startswith("resnet") else 1e3
                rows.append(reduction_row(towers, name, found, unit))
            else:
                found = steps.traffic(name, towers, inverses=FLAGS.inverses)
                rows.append(step_row(name, towers, found))
            notes += [name, *details(found)] if FLAGS.details else []
            record[f"{name}, {towers}"] = found._asdict() | {
                "crossings": [crossing._asdict() for crossing in found.crossings]
            }
    print("\n".join([*harness.table(heads, rows), *notes]))
    harness.save(record)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_string("step", [], "Step to measure; may be repeated. Default: all.")
    flags.DEFINE_multi_integer("towers", [4], "Towers, each on its own GPU; may be repeated.", 2)
    flags.DEFINE_bool("inverses", True, "Measure steps in which K-FAC computes new inverses.")
    flags.DEFINE_bool("details", False, "List tensors, waits, devices and missing kernels.")
    flags.DEFINE_enum(
        "reductions", None, ["convnet", "resnet_v1_50"], "Model whose reductions are compared."
    )
    flags.DEFINE_enum("variables", "local", ["local", "round_robin"], "Where they are then.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
