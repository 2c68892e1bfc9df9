"""Time of a training step on several towers, compared with other ways of training.

Each model and number of towers has its own process, because a process can set its logical devices
and its strategy only once.

    python -m benchmarks.tower_step --towers=2 --towers=4 --model=MLP --rounds=15
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from benchmarks import harness
from benchmarks.tower_step import WAYS

MODELS = ("ConvNet 8x8", "ConvNet 28x28", "MLP", "embedding")

FLAGS = flags.FLAGS


def time_here(model_name: str, towers: int) -> dict[str, Any]:
    """Times all ways of training a model in this process.

    Returns:
      {"times": seconds per step of each block by way of training} and, for the embedding model,
      "largest_tensor": bytes by way of training.
    """
    devices = harness.divide_cpu(towers)
    from benchmarks.tower_step import tower_models, tower_programs  # noqa: PLC0415

    programs = tower_programs.all_ways(tower_models.make(model_name, FLAGS.batch_size), devices)
    times = harness.take_turns(programs, FLAGS.rounds, FLAGS.block, warm_up=2 * FLAGS.block)
    if model_name != "embedding":
        return {"times": times}
    *graphs, _ = programs
    return {"times": times, "largest_tensor": {n: programs[n].largest_tensor() for n in graphs}}


def lines(model: str, towers: int, found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a table: times of all ways, and the ratios of the first to each."""
    times, sizes = found["times"], found.get("largest_tensor", {})
    rows = []
    for way, seconds in times.items():
        milliseconds = harness.spread([1e3 * value for value in seconds], 2)
        ratio = harness.spread(harness.ratios(times[WAYS[0]], seconds), 2)
        rows.append([way, milliseconds, ratio, f"{sizes[way] / 1e6:.1f}" if way in sizes else ""])
    heads = (f"{model}, towers: {towers}", "ms", "ours / this", "largest tensor, MB")
    return harness.table(heads, rows)


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
            cases[f"{model}\n{towers} towers"] = found
            print("\n".join(lines(model, towers, found)), flush=True)
    harness.save(cases)
    if FLAGS.picture:
        ratios = {
            case: {way: harness.ratios(times[WAYS[0]], times[way]) for way in WAYS[1:]}
            for case, times in ((case, found["times"]) for case, found in cases.items())
        }
        harness.draw_bars(FLAGS.picture, ratios, "Step time, replicated / others", "ratio")


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("model", list(MODELS), MODELS, "Model to train; may be repeated.")
    flags.DEFINE_multi_integer("towers", [2, 4], "Number of towers; may be repeated.", 2)
    flags.DEFINE_integer("batch_size", 256, "Examples in a global batch.", lower_bound=2)
    flags.DEFINE_integer("rounds", 15, "Blocks of each way of training.", lower_bound=1)
    # The first few steps of a block find the caches filled by another program.
    flags.DEFINE_integer("block", 30, "Steps in a block.", lower_bound=1)
    harness.define_flags(picture=True, here=True)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
