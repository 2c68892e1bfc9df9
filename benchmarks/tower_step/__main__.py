"""Time of a training step on several towers, compared with other ways of training.

Each model and number of towers has its own process, because a process can set its logical devices
and its strategy only once.

    python -m benchmarks.tower_step --towers=2 --towers=4 --model=MLP --rounds=15
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from absl import flags

from benchmarks import harness
from benchmarks.tower_step import WAYS

MODELS = ("ConvNet 8x8", "ConvNet 28x28", "MLP", "embedding")
EMBEDDING = {"rows": 100_000, "width": 64, "words": 20}

Times: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds per step of each block, by way of training."""

FLAGS = flags.FLAGS


def time_here(model_name: str, towers: int) -> dict[str, Any]:
    """Times all ways of training a model in this process.

    Returns:
      {"times": `Times`} and, for the embedding model, "largest_tensor": bytes by way of training.
    """
    devices = harness.divide_cpu(towers)
    from benchmarks.tower_step import tower_models, tower_programs  # noqa: PLC0415

    size = FLAGS.batch_size
    model: tower_models.Model
    if model_name == "embedding":
        model = tower_models.Embedding(batch_size=size, **EMBEDDING)
    elif model_name == "MLP":
        model = tower_models.Mlp(size)
    else:
        model = tower_models.ConvNet(int(model_name.rpartition("x")[2]), size)
    programs = tower_programs.all_ways(model, devices)
    times = harness.take_turns(programs, FLAGS.rounds, FLAGS.block, warm_up=2 * FLAGS.block)
    found: dict[str, Any] = {"times": times}
    if model_name == "embedding":
        found["largest_tensor"] = {
            way: program.largest_tensor()
            for way, program in programs.items()
            if isinstance(program, tower_programs.GraphProgram)
        }
    return found


def time_elsewhere(model: str, towers: int) -> dict[str, Any]:
    """Runs `time_here` in another process and returns its result."""
    options = [f"--{flag}={FLAGS[flag].value}" for flag in ("batch_size", "rounds", "block")]
    case = ["--here", f"--model={model}", f"--towers={towers}"]
    command = harness.command("tower_step", *options, *case)
    found: dict[str, Any] = harness.read_json(command, f"time {model} on {towers} towers")
    return found


def lines(model: str, towers: int, found: Mapping[str, Any]) -> Iterator[str]:
    """Yields lines with the times of all ways, and the ratios of "replicated" to the others."""
    times: Times = found["times"]
    ours = times[WAYS[0]]
    yield f"{model}, towers: {towers}"
    for way, seconds in times.items():
        cells = f"{harness.spread([1e3 * value for value in seconds], 2):>24} ms"
        if way != WAYS[0]:
            cells += f"   ours / this {harness.spread(harness.ratios(ours, seconds), 2)}"
        yield f"  {way:<18}{cells}"
    for way, size in found.get("largest_tensor", {}).items():
        yield f"  {way:<18}{size / 1e6:>24.1f} MB, the largest tensor"


def main(_: Sequence[str]) -> None:
    """Times one case in this process with --here; else times all cases and saves the results."""
    if FLAGS.here:
        print(json.dumps(time_here(FLAGS.model[0], FLAGS.towers[0])))
        return
    cases = {}
    for model in FLAGS.model:
        for towers in FLAGS.towers:
            found = time_elsewhere(model, towers)
            cases[f"{model}\n{towers} towers"] = found
            print("\n".join(lines(model, towers, found)), flush=True)
    harness.save(cases)
    if FLAGS.picture:
        groups = {
            case: {
                way: harness.ratios(found["times"][WAYS[0]], found["times"][way])
                for way in WAYS[1:]
            }
            for case, found in cases.items()
        }
        harness.draw_bars(FLAGS.picture, groups, "Step time, replicated / others", "ratio")


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "Model to train; may be repeated.")
    flags.DEFINE_multi_integer(
        "towers", [2, 4], "Number of towers; may be repeated.", lower_bound=2
    )
    flags.DEFINE_integer("batch_size", 256, "Examples in a global batch.", lower_bound=2)
    flags.DEFINE_integer("rounds", 15, "Blocks of each way of training.", lower_bound=1)
    flags.DEFINE_integer(
        "block",
        30,
        "Steps in a block. The first few find the caches filled by another program.",
        lower_bound=1,
    )
    harness.define_flags(picture=True)
    flags.DEFINE_bool("here", False, "Time one case in this process and print JSON.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
