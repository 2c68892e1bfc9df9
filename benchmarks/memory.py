"""Peak memory of training, by number of towers and with K-FAC. Linux only.

With --rival, K-FAC's groups are also measured with tensorflow/kfac. The two need different versions
of TensorFlow, so each peak is compared with that of a process that only runs a constant.

    python -m benchmarks.memory --group=MLP --group="K-FAC, autoencoder" --repeats=3
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, rivals

TOWERS = {"1 tower": 1, "2 towers": 2, "4 towers": 4}
OPTIMIZERS = {"momentum": "momentum", "K-FAC": "kfac"}
TOWER_GROUPS = ("ConvNet 28x28", "MLP", "ResNet-50 64x64")
KFAC_GROUPS = {"K-FAC, ConvNet": "convnet", "K-FAC, autoencoder": "autoencoder"}
RESNET_GROUPS = {"K-FAC, ResNet-20": "resnet20", "K-FAC, ResNet-50": "resnet50"}
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
    elif group in RESNET_GROUPS:
        from benchmarks.resnet_kfac import step_times  # noqa: PLC0415

        share = FLAGS.curvature_share
        step_times.Program(RESNET_GROUPS[group], case, 0, share).run(steps)
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


def peak_elsewhere(group: str, case: str, rival: str = "") -> int:
    """Runs `peak_here` in another process, a rival's if one is named; returns the peak in bytes."""
    options = ["--here", f"--group={group}", f"--case={case}", f"--steps={FLAGS.steps}"]
    options.append(f"--curvature_share={FLAGS.curvature_share}")
    command = harness.command("memory", *options)
    if rival:
        command = rivals.command(rivals.install(FLAGS.environments), "memory", *options)
    peak: int = harness.read_json(command, f"find the peak of {group}, {case} {rival}")
    return peak


def cases(groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the cases of each group, after those of TensorFlow alone."""
    chosen = {group: tuple(TOWERS if group in TOWER_GROUPS else OPTIMIZERS) for group in groups}
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


def rival_lines(ours: Peaks, theirs: Peaks, rival: str) -> Iterator[str]:
    """Yields the lines of a table: peaks beyond TensorFlow, and the ratio of their medians."""
    yield f"{'beyond TensorFlow, MB':<32}{'ours':>22}{rival:>22}{'ratio':>8}"
    own = beyond(ours)
    for group, peaks in beyond(theirs).items():
        for case, values in peaks.items():
            pair = own[group][case], values
            ratio = statistics.median(pair[0]) / statistics.median(pair[1])
            shown = "".join(f"{harness.spread(each, 0):>22}" for each in pair)
            yield f"{f'{group}, {case}':<32}{shown}{ratio:>8.2f}"


def measure(groups: Sequence[str], rival: str = "") -> dict[str, dict[str, list[int]]]:
    """Returns the peaks of all cases of some groups, each measured in its own process."""
    found: dict[str, dict[str, list[int]]] = {
        group: {case: [] for case in names} for group, names in cases(groups).items()
    }
    for _ in range(FLAGS.repeats):
        for group, peaks in found.items():
            for case, values in peaks.items():
                values.append(peak_elsewhere(group, case, rival))
    return found


def _megabytes(values: Sequence[int]) -> str:
    return harness.spread([value / 1e6 for value in values], 0)


def main(_: Sequence[str]) -> None:
    """Measures one case in this process with --here; else measures all and saves the results."""
    if FLAGS.here:
        print(json.dumps(peak_here(FLAGS.group[0], FLAGS.case, FLAGS.steps)))
        return
    found = {"ours": measure(FLAGS.group)}
    print("\n".join(lines(found["ours"])))
    for rival in FLAGS.rival:
        found[rival] = measure([group for group in FLAGS.group if group in KFAC_GROUPS], rival)
        print("\n".join(rival_lines(found["ours"], found[rival], rival)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    groups = [*TOWER_GROUPS, *KFAC_GROUPS]
    every = [*groups, *RESNET_GROUPS, ALONE]
    flags.DEFINE_multi_enum("group", groups, every, "Group of cases; may be repeated.")
    flags.DEFINE_float(
        "curvature_share", 1.0, "Share of the examples in averages of ResNets.", 0.001, 1.0
    )
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 3, "Processes of each case.", lower_bound=1)
    flags.DEFINE_bool("here", False, "Measure one case in this process and print JSON.")
    flags.DEFINE_enum(
        "case", ALONE, [*TOWERS, *OPTIMIZERS, ALONE], "Case of the group, with --here."
    )
    rivals.define_flags()
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
