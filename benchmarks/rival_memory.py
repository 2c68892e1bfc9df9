"""Peak memory of training with our K-FAC and with tensorflow/kfac, by `benchmarks.memory`.

The two need different versions of TensorFlow, so the peak of a process that only runs a constant is
subtracted. Momentum SGD in both shows the effect of the version on a model.

    python -m benchmarks.rival_memory --model=autoencoder --repeats=3
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, memory, rivals

MODELS = {model: group for group, model in memory.KFAC_GROUPS.items()}
OURS, THEIRS = "ours", rivals.NAME

Peaks: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Peak bytes beyond TensorFlow of each repeat, by "model, optimizer" and by `OURS` or `THEIRS`."""

FLAGS = flags.FLAGS


def lines(found: Peaks) -> Iterator[str]:
    """Yields the lines of a table: peaks beyond TensorFlow, and the ratio of their medians."""
    yield f"{'beyond TensorFlow, MB':<32}{OURS:>24}{THEIRS:>24}{'ratio':>8}"
    for case, peaks in found.items():
        ours, theirs = ([value / 1e6 for value in peaks[name]] for name in (OURS, THEIRS))
        yield (
            f"{case:<32}{harness.spread(ours, 0):>24}{harness.spread(theirs, 0):>24}"
            f"{statistics.median(ours) / statistics.median(theirs):>8.2f}"
        )


def measure() -> dict[str, dict[str, list[int]]]:
    """Measures all peaks, each in its own process."""
    python = rivals.install(FLAGS.environments)

    def peak(name: str, group: str, case: str) -> int:
        options = ["--here", f"--group={group}", f"--case={case}", f"--steps={FLAGS.steps}"]
        if name == OURS:
            command = harness.command("memory", *options)
        else:
            command = rivals.command(python, "memory", *options)
        found: int = harness.read_json(command, f"find the peak of {group}, {case}, {name}")
        return found

    alone = {name: peak(name, memory.ALONE, memory.ALONE) for name in (OURS, THEIRS)}
    found: dict[str, dict[str, list[int]]] = {}
    for model in FLAGS.model:
        for case in memory.OPTIMIZERS:
            peaks = found[f"{model}, {case}"] = {name: [] for name in alone}
            for _ in range(FLAGS.repeats):
                for name, values in peaks.items():
                    values.append(peak(name, MODELS[model], case) - alone[name])
    return found


def main(_: Sequence[str]) -> None:
    """Measures all cases, then prints and saves the results."""
    found = measure()
    print("\n".join(lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    rivals.define_flags()
    models = list(MODELS)
    flags.DEFINE_multi_enum("model", models, models, "Model to train; may be repeated.")
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 1, "Processes of each case.", lower_bound=1)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
