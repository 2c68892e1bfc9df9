"""Time of a training step on several towers, compared with other ways of training.

Each model and number of towers has its own process, because a process can set its logical devices
and its strategy only once.

    python -m benchmarks.tower_step --towers=2 --towers=4 --model=MLP --rounds=15
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from absl import flags

from benchmarks import harness
from benchmarks.tower_step import WAYS
from examples.lazy_module import LazyModule

tower_models = LazyModule("benchmarks.tower_step.tower_models")
tower_programs = LazyModule("benchmarks.tower_step.tower_programs")


MODELS = ("ConvNet 8x8", "ConvNet 28x28", "MLP", "embedding")

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, by way of training."""

FLAGS = flags.FLAGS


def time_here(model_name: str, towers: int) -> Times:
    """Times all ways of training a model in this process."""
    devices = harness.divide_cpu(towers)
    programs = tower_programs.all_ways(tower_models.make(model_name, FLAGS.batch_size), devices)
    return harness.take_turns(programs, FLAGS.rounds, FLAGS.block, warm_up=2 * FLAGS.block)


def lines(model: str, towers: int, times: Times) -> Iterator[str]:
    """Yields the lines of a table: times of all ways, and the ratios of the first to each."""
    rows = []
    for way, seconds in times.items():
        milliseconds = harness.spread([1e3 * value for value in seconds], 2)
        ratio = harness.spread(harness.ratios(times[WAYS[0]], seconds), 2)
        rows.append([way, milliseconds, ratio])
    return harness.table((f"{model}, towers: {towers}", "ms", "ours / this"), rows)


def main(_: Sequence[str]) -> None:
    """Times one case in this process with --here; else times all cases and saves the results."""
    if FLAGS.here:
        print(json.dumps(time_here(FLAGS.model[0], FLAGS.towers[0])))
        return
    cases = {}
    options = harness.given_flags("batch_size", "rounds", "block")
    for model in FLAGS.model:
        for towers in FLAGS.towers:
            case = "--here", f"--model={model}", f"--towers={towers}"
            command = harness.command("tower_step", *options, *case)
            found = harness.read_json(command, f"time {model} on {towers} towers")
            cases[f"{model}, {towers} towers"] = found
            print("\n".join(lines(model, towers, found)), flush=True)
    harness.save(cases)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "Model to train; may be repeated.")
    flags.DEFINE_multi_integer("towers", [2, 4], "Number of towers; may be repeated.", 2)
    flags.DEFINE_integer("batch_size", 256, "Examples in a global batch.", lower_bound=2)
    flags.DEFINE_integer("rounds", 15, "Blocks of each way of training.", lower_bound=1)
    # The first few steps of a block find the caches filled by another program.
    flags.DEFINE_integer("block", 30, "Steps in a block.", lower_bound=1)
    harness.define_flags(here=True)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
