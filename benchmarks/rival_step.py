"""Time of a step with other K-FACs, compared with momentum SGD in the same framework.

The rivals are tensorflow/kfac 0.2.4 on TensorFlow 2.15 and kfac-jax 0.0.8. Models, batches and
intervals are those of `benchmarks.kfac_step`, so the ratios can be compared with its ratios.
`benchmarks.rivals.environments` installs the rivals. If one cannot be installed or timed, the
others still run.

    python -m benchmarks.rival_step --rival=tensorflow-kfac --model=convnet --repeats=5
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness, kfac_step
from benchmarks.rivals import environments

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, by optimizer: "momentum", "kfac"."""

FLAGS = flags.FLAGS


def measure(name: str, model: str, python: str) -> Times:
    """Times the steps of a rival in its own environment."""
    numbers = (FLAGS.batch_size, FLAGS.repeats, FLAGS.block)
    command = environments.command(name, python, "steps", model, *map(str, numbers))
    times: Times = harness.read_json(command, f"time {name}, {model}", FLAGS.seconds)
    return times


def measure_all() -> tuple[dict[str, dict[str, Times]], list[str]]:
    """Returns the times by model and rival, and the error texts of failed rivals."""
    found: dict[str, dict[str, Times]] = {model: {} for model in FLAGS.model}
    troubles = []
    for name in FLAGS.rival:
        try:
            python = environments.install(name, FLAGS.environments)
        except harness.ChildError as error:
            troubles.append(str(error))
            continue
        for model in (m for m in found if m in environments.RIVALS[name].models):
            try:
                found[model][name] = measure(name, model, python)
            except harness.ChildError as error:
                troubles.append(str(error))
    return found, troubles


def lines(found: Mapping[str, Mapping[str, Times]]) -> Iterator[str]:
    """Yields the lines of a table, one for each model and rival."""
    yield f"{'':<32}{'momentum ms':>24}{'K-FAC ms':>28}{'ratio':>22}"
    for model, rivals in found.items():
        for name, times in rivals.items():
            momentum, kfac = times["momentum"], times["kfac"]
            milliseconds = [[1e3 * t for t in series] for series in (momentum, kfac)]
            yield (
                f"{f'{model}, {name}':<32}{harness.spread(milliseconds[0], 1):>24}"
                f"{harness.spread(milliseconds[1], 1):>28}"
                f"{harness.spread(harness.ratios(kfac, momentum), 2):>22}"
            )


def main(_: Sequence[str]) -> int:
    """Runs the benchmark, then prints, saves and draws the results. Returns the exit code."""
    found, troubles = measure_all()
    print("\n".join([*lines(found), *troubles]))
    if FLAGS.json:
        harness.write_record(FLAGS.json, found)
    if FLAGS.picture and any(found.values()):
        groups = {
            model: {
                name: harness.ratios(times["kfac"], times["momentum"])
                for name, times in rivals.items()
            }
            for model, rivals in found.items()
            if rivals
        }
        title = f"Step of other K-FACs / momentum SGD, batch {FLAGS.batch_size}"
        harness.draw_bars(FLAGS.picture, groups, title, "ratio")
    return int(bool(troubles))


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    environments.define_flags("steps", environments.with_programs("steps"))
    flags.adopt_module_key_flags(environments)
    flags.DEFINE_multi_enum(
        "model", list(kfac_step.MODELS), kfac_step.MODELS, "Model to train; may be repeated."
    )
    flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
    flags.DEFINE_integer("repeats", 5, "Pairs of blocks to time.", lower_bound=1)
    flags.DEFINE_integer("block", 10, "Steps in a block.", lower_bound=1)
    flags.DEFINE_float("seconds", 200, "Time limit of a rival for a model.")
    flags.DEFINE_string("json", None, "File to write the measurements to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the ratios to.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
