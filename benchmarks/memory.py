"""How much memory training takes at its peak: by number of towers, and of K-FAC.

Each case has a process of its own, which builds the model, makes some steps and tells the largest
amount of memory that it had (`ru_maxrss`). What a process has that only imports TensorFlow and runs
a constant is subtracted. Global batches are the same for all numbers of towers. For Linux.

    python -m benchmarks.memory --group=MLP --group="K-FAC, autoencoder" --repeats=3
"""

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import app, flags

from benchmarks import harness

TOWERS = {"1 tower": 1, "2 towers": 2, "4 towers": 4}
OPTIMIZERS = {"momentum": "momentum", "K-FAC": "kfac"}
TOWER_GROUPS = ("ConvNet 28x28", "MLP", "ResNet-50 64x64")
KFAC_GROUPS = {"K-FAC, ConvNet": "convnet", "K-FAC, autoencoder": "autoencoder"}
BATCH_SIZE = 256
RESNET_BATCH_SIZE = 32
ALONE = "TensorFlow alone"

Peaks: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Group -> case -> bytes at the peak, by repeat; the first case is what the others stand beside."""

FLAGS = flags.FLAGS


def peak_here(group: str, case: str, steps: int) -> int:
    """Trains in this process; returns the bytes that it had at most, TensorFlow included."""
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
    """Has another process find out a peak; returns it in bytes."""
    options = ["--here", f"--group={group}", f"--case={case}", f"--steps={FLAGS.steps}"]
    command = [sys.executable, "-m", "benchmarks.memory", *options]
    peak: int = harness.read_json(command, f"find the peak of {group}, {case}")
    return peak


def cases(groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the cases of each group, TensorFlow alone before them."""
    chosen = {group: tuple(OPTIMIZERS if group in KFAC_GROUPS else TOWERS) for group in groups}
    return {ALONE: (ALONE,), **chosen}


def beyond(found: Peaks) -> dict[str, dict[str, list[float]]]:
    """Returns peaks without what TensorFlow alone has, in MB."""
    alone = statistics.median(found[ALONE][ALONE])
    return {
        group: {case: [(value - alone) / 1e6 for value in peaks[case]] for case in peaks}
        for group, peaks in found.items()
        if group != ALONE
    }


def lines(found: Peaks) -> Iterator[str]:
    """Yields the lines of a table: peaks, what is beyond TensorFlow's own, and its ratio.

    The ratio is that to the first case of a group, of medians.
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
    """Finds out one peak here, or all of them elsewhere; prints, writes, draws."""
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
    if FLAGS.json:
        harness.write_record(FLAGS.json, found)
    if FLAGS.picture:
        harness.draw_bars(FLAGS.picture, beyond(found), "Memory beyond TensorFlow's own", "MB")


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    groups = [*TOWER_GROUPS, *KFAC_GROUPS]
    flags.DEFINE_multi_enum("group", groups, [*groups, ALONE], "Of cases; may be repeated.")
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 3, "Processes of each case.", lower_bound=1)
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the ratios to.")
    flags.DEFINE_bool("here", False, "Find out the peak of one case in this process; print JSON.")
    flags.DEFINE_enum("case", ALONE, [*TOWERS, *OPTIMIZERS, ALONE], "Which, of the group; here.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
