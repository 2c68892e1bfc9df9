"""Peak memory of training, by number of towers and with K-FAC. Linux only.

With --rival, K-FAC's groups are also measured with tensorflow/kfac. The two need different versions
of TensorFlow, so each peak is compared with that of a process that only runs a constant.

    python -m benchmarks.memory --group=MLP --group="K-FAC, autoencoder" --repeats=3
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, rivals
from benchmarks.kfac_step import OPTIMIZERS
from examples.lazy_module import LazyModule

step_programs = LazyModule("benchmarks.kfac_step.step_programs")
tower_models = LazyModule("benchmarks.tower_step.tower_models")
tower_programs = LazyModule("benchmarks.tower_step.tower_programs")


TOWERS = {"1 tower": 1, "2 towers": 2, "4 towers": 4}
TOWER_GROUPS = ("ConvNet 28x28", "MLP", "ResNet-50 64x64")
KFAC_GROUPS = {"K-FAC, ConvNet": "convnet", "K-FAC, autoencoder": "autoencoder"}
RESNET_GROUPS = {"K-FAC, ResNet-20": "resnet20", "K-FAC, ResNet-50": "resnet50"}
_MODELS = {**KFAC_GROUPS, **RESNET_GROUPS}
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
    elif group in _MODELS:
        step_programs.Program(_MODELS[group], case, curvature_share=FLAGS.curvature_share).run(
            steps
        )
    else:
        devices = harness.divide_cpu(TOWERS[case])
        size = RESNET_BATCH_SIZE if group.startswith("ResNet") else BATCH_SIZE
        model = tower_models.make(group, size)
        tower_programs.GraphProgram(model, devices, tower_programs.replicated).run(steps)
    return harness.peak_bytes()


def measure(groups: Sequence[str], rival: str = "") -> dict[str, dict[str, list[int]]]:
    """Returns the peaks of all cases of some groups, and before them of TensorFlow alone.

    Each is measured in its own process, of a rival if one is named.
    """
    found: dict[str, dict[str, list[int]]] = {ALONE: {ALONE: []}}
    for group in groups:
        found[group] = {case: [] for case in (TOWERS if group in TOWER_GROUPS else OPTIMIZERS)}
    for _ in range(FLAGS.repeats):
        for group, peaks in found.items():
            for case, values in peaks.items():
                options = ["--here", f"--group={group}", f"--case={case}"]
                options += harness.given_flags("steps", "curvature_share")
                command = rivals.command_of(rival, "memory", *options)
                values.append(harness.read_json(command, f"measure {group}, {case} {rival}"))
    return found


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
    rows: list[list[object]] = [[ALONE, _megabytes(found[ALONE][ALONE]), "", ""]]
    for group, peaks in beyond(found).items():
        base = statistics.median(next(iter(peaks.values())))
        for case, own in peaks.items():
            cells = _megabytes(found[group][case]), harness.spread(own, 0)
            rows.append([f"{group}, {case}", *cells, f"{statistics.median(own) / base:.2f}"])
    return harness.table(("peak, MB", "in all", "beyond TensorFlow", "ratio"), rows)


def rival_lines(ours: Peaks, theirs: Peaks, rival: str) -> Iterator[str]:
    """Yields the lines of a table: peaks beyond TensorFlow, and the ratio of their medians."""
    rows, own = [], beyond(ours)
    for group, peaks in beyond(theirs).items():
        for case, values in peaks.items():
            pair = own[group][case], values
            ratio = statistics.median(pair[0]) / statistics.median(pair[1])
            cells = [harness.spread(each, 0) for each in pair]
            rows.append([f"{group}, {case}", *cells, f"{ratio:.2f}"])
    return harness.table(("beyond TensorFlow, MB", "ours", rival, "ratio"), rows)


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
    flags.DEFINE_float("curvature_share", 1.0, "Share of ResNets' examples in averages.", 1e-3, 1.0)
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 3, "Processes of each case.", lower_bound=1)
    flags.DEFINE_enum("case", ALONE, [*TOWERS, *OPTIMIZERS, ALONE], "Case, with --here.")
    harness.define_flags(here=True)
    rivals.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
