"""Traffic between devices in training steps of towers on GPUs, found without a GPU.

The table also has the bytes of the variables on the fullest GPU, K-FAC's among them. `--details`
lists the tensors that cross, the waits and the operations without a GPU kernel.

    python -m benchmarks.device_traffic --step=kfac --towers=4 --details
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.device_traffic.traffic import Traffic

ROUTES = ("CPU>GPU", "GPU>CPU", "GPU>GPU")

FLAGS = flags.FLAGS


def lines(found: Mapping[str, Traffic]) -> Iterator[str]:
    """Yields the lines of a table, one for each step."""
    heads = "".join(f"{f'{route}, kB':>13}" for route in ROUTES)
    yield f"{'step':<32}{heads}{'waits':>8}{'rounds':>8}{'no kernel':>11}{'variables, MB':>15}"
    for name, measured in found.items():
        sent = "".join(f"{measured.sent(route) / 1e3:>13.1f}" for route in ROUTES)
        waits, strays = len(measured.waits), len(measured.strays)
        kept = max((size for device, size in measured.kept.items() if device != "CPU:0"), default=0)
        counts = f"{waits:>8}{measured.rounds:>8}{strays:>11}{kept / 1e6:>15.2f}"
        yield f"{name:<32}{sent}{counts}"


def details(measured: Traffic) -> Iterator[str]:
    """Yields a line for each large tensor that crosses, wait, device and missing kernel."""
    for title, crossings in (("crosses", measured.large), ("wait", measured.waits)):
        for each in crossings:
            size = "?" if each.bytes is None else each.bytes
            route = f"{each.source} > {each.target}"
            consumers = ", ".join(each.consumers[:2])
            yield f"  {title:<10}{route:<16}{size:>10} B  {each.kind} {each.name} for {consumers}"
    for device, size in sorted(measured.kept.items()):
        yield f"  variables  {device:<16}{size:>9} B"
    for stray in measured.strays:
        yield f"  no kernel  {stray.device:<15} {stray.kind} {stray.name}"


def main(_: Sequence[str]) -> None:
    """Measures the chosen steps, then prints and saves the results."""
    from benchmarks.device_traffic import steps  # noqa: PLC0415

    steps.check_names(FLAGS.step)
    found = {
        name: steps.traffic(
            name, FLAGS.towers, with_summaries=FLAGS.summaries, with_inverses=FLAGS.inverses
        )
        for name in FLAGS.step or steps.NAMES
    }
    print(f"{FLAGS.towers} towers, {steps.BATCH_PER_TOWER} examples each")
    head, *rows = lines(found)
    print(head)
    for row, measured in zip(rows, found.values(), strict=True):
        print(row)
        if FLAGS.details:
            print("\n".join(details(measured)))
    record = {
        name: {
            "rounds": each.rounds,
            "kept": each.kept,
            "crossings": [crossing._asdict() for crossing in each.crossings],
            "strays": [stray._asdict() for stray in each.strays],
        }
        for name, each in found.items()
    }
    harness.save(record)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_string("step", [], "Step to measure; may be repeated. Default: all.")
    flags.DEFINE_integer("towers", 4, "Number of towers, each on its own GPU.", lower_bound=2)
    flags.DEFINE_bool("summaries", False, "Measure steps that write summaries.")
    flags.DEFINE_bool("inverses", True, "Measure steps in which K-FAC computes new inverses.")
    flags.DEFINE_bool("details", False, "List tensors, waits and missing kernels.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
