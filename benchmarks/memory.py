"""Peak memory of training, by number of towers and with K-FAC. Linux only.

python -m benchmarks.memory --group=MLP --group="K-FAC, autoencoder" --repeats=3
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness

TOWERS = {"1 tower": 1, "2 towers": 2, "4 towers": 4}
OPTIMIZERS = {"momentum": "momentum", "K-FAC": "kfac"}
TOWER_GROUPS = ("ConvNet 28x28", "MLP", "ResNet-50 64x64")
KFAC_GROUPS = {"K-FAC, ConvNet": "convnet", "K-FAC, autoencoder": "autoencoder"}
BATCH_SIZE = 256
RESNET_BATCH_SIZE = 32
ALONE = "TensorFlow alone"

Peaks: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Peak bytes of each repeat, by group and case. The first case is the baseline of a group."""

FLAGS = flags.FLAGS


def peak_here(group: str, case: str, steps: int) -> int:
    """Trains in this process and returns its peak bytes, including TensorFlow's own."""
    if group == ALONE:
        harness.run_constant()
    elif group in KFAC_GROUPS:
        from benchmarks.kfac_step import step_programs  # noqa: PLC0415

        step_programs.Program(KFAC_GROUPS[group], OPTIMIZERS[case], BATCH_SIZE).run(steps)
    else:
        _train_on_towers(group, TOWERS[case], steps)
    return harness.peak_bytes()


def _train_on_towers(group: str, towers: int, steps: int) -> None:
    devices = harness.divide_cpu(towers)
    from benchmarks.tower_step import tower_models, tower_programs  # noqa: PLC0415

    model: tower_models.Model
    if group == "MLP":
        model = tower_models.Mlp(BATCH_SIZE)
    elif group == "ConvNet 28x28":
        model = tower_models.ConvNet(28, BATCH_SIZE)
    else:
        model = tower_models.Network("resnet_v1_50", 64, RESNET_BATCH_SIZE)
    tower_programs.GraphProgram(model, devices, tower_programs.replicated).run(steps)


def peak_elsewhere(group: str, case: str) -> int:
    """Runs `peak_here` in another process and returns the peak in bytes."""
    options = ["--here", f"--group={group}", f"--case={case}", f"--steps={FLAGS.steps}"]
    peak: int = harness.read_json(
        harness.command("memory", *options), f"find the peak of {group}, {case}"
    )
    return peak


def cases(groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the cases of each group, after those of TensorFlow alone."""
    chosen = {group: tuple(OPTIMIZERS if group in KFAC_GROUPS else TOWERS) for group in groups}
    return {ALONE: (ALONE,), **chosen}


def beyond(found: Peaks) -> dict[str, dict[str, list[float]]]:
    """Returns the peaks minus the peak of TensorFlow alone, in MB."""
    alone = statistics.median(found[ALONE][ALONE])
    return {
        group: {case: [(value - alone) / 1e6 for value in peaks[case]] for case in peaks}
        for group, peaks in found.items()
        if group != ALONE
    }


def lines(found: Peaks) -> Iterator[str]:
    """Yields the lines of a table: peak, peak beyond TensorFlow's own, and ratio.

    The ratio compares the medians beyond TensorFlow's own with the first case of the group.
    """
    yield f"{'peak, MB':<32}{'in all':>22}{'beyond TensorFlow':>22}{'ratio':>8}"
    yield f"{ALONE:<32}{_megabytes(found[ALONE][ALONE]):>22}"
    for group, peaks in beyond(found).items():
        base = statistics.median(next(iter(peaks.values())))
        for case, own in peaks.items():
            yield (
                f"{f'{group}, {case}':<32}{_megabytes(found[group][case]):>22}"
                f"{harness.spread(own, 0):>22}{statistics.median(own) / base:>8.2f}"
            )


def _megabytes(values: Sequence[int]) -> str:
    return harness.spread([value / 1e6 for value in values], 0)


def main(_: Sequence[str]) -> None:
    """Measures one case in this process with --here; else measures all and saves the results."""
    if FLAGS.here:
        print(json.dumps(peak_here(FLAGS.group[0], FLAGS.case, FLAGS.steps)))
        return
    found: dict[str, dict[str, list[int]]] = {
        group: {case: [] for case in names} for group, names in cases(FLAGS.group).items()
    }
    for _repeat in range(FLAGS.repeats):
        for group, peaks in found.items():
            for case, values in peaks.items():
                values.append(peak_elsewhere(group, case))
    print("\n".join(lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    groups = [*TOWER_GROUPS, *KFAC_GROUPS]
    flags.DEFINE_multi_enum("group", groups, [*groups, ALONE], "Group of cases; may be repeated.")
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 3, "Processes of each case.", lower_bound=1)
    flags.DEFINE_bool("here", False, "Measure one case in this process and print JSON.")
    flags.DEFINE_enum(
        "case", ALONE, [*TOWERS, *OPTIMIZERS, ALONE], "Case of the group, with --here."
    )
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
