"""Peak memory of training with our K-FAC and with tensorflow/kfac.

The models and batches are those of `benchmarks.kfac_step`. Each case has its own process, which
returns its peak memory (`ru_maxrss`). The peak after TensorFlow runs a constant is subtracted,
because the two need different versions of TensorFlow. Momentum SGD in both shows the effect of the
version on a model. Linux only.

    python -m benchmarks.rival_memory --model=autoencoder --repeats=3
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, kfac_step, rivals

OPTIMIZERS = ("momentum", "kfac")
OURS, THEIRS = "ours", rivals.NAME

Peaks: TypeAlias = Mapping[str, Mapping[str, Sequence[int]]]
"""Peak bytes beyond TensorFlow of each repeat, by "model, optimizer" and by `OURS` or `THEIRS`."""

FLAGS = flags.FLAGS


def peak_here(model: str, optimizer: str) -> dict[str, int]:
    """Trains in this process and returns the peak bytes: "alone" before the model, and "peak"."""
    from benchmarks.kfac_step import step_programs  # noqa: PLC0415

    def train() -> None:
        step_programs.Program(model, optimizer, FLAGS.batch_size).run(FLAGS.steps)

    return harness.peaks_of(train)


def commands(model: str, optimizer: str, python: str) -> dict[str, list[str]]:
    """Returns the command lines that measure our peak and theirs."""
    options = [f"--{flag}={FLAGS[flag].value}" for flag in ("batch_size", "steps")]
    case = ["--here", f"--model={model}", f"--optimizer={optimizer}", *options]
    return {
        OURS: harness.command("rival_memory", *case),
        THEIRS: rivals.command(python, "rival_memory", *case),
    }


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
    found: dict[str, dict[str, list[int]]] = {}
    for model in FLAGS.model:
        for optimizer in OPTIMIZERS:
            case = f"{model}, {optimizer}"
            found[case] = {OURS: [], THEIRS: []}
            programs = commands(model, optimizer, python)
            for _ in range(FLAGS.repeats):
                for name, command in programs.items():
                    peak = harness.read_json(command, f"find the peak of {case}, {name}")
                    found[case][name].append(peak["peak"] - peak["alone"])
    return found


def main(_: Sequence[str]) -> None:
    """Measures one case in this process with --here; else measures all and saves the results."""
    if FLAGS.here:
        print(json.dumps(peak_here(FLAGS.model[0], FLAGS.optimizer)))
        return
    found = measure()
    print("\n".join(lines(found)))
    harness.save(found)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    rivals.define_flags()
    flags.DEFINE_multi_enum(
        "model", list(kfac_step.MODELS), kfac_step.MODELS, "Model to train; may be repeated."
    )
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("steps", 11, "Steps of each process; K-FAC inverts every 10.", 1)
    flags.DEFINE_integer("repeats", 1, "Processes of each case.", lower_bound=1)
    flags.DEFINE_bool("here", False, "Measure one of our cases in this process; print JSON.")
    flags.DEFINE_enum("optimizer", "kfac", OPTIMIZERS, "Optimizer, with --here.")
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
