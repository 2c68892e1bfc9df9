"""Steps and seconds to a loss on held-out text: K-FAC, AdamW, Muon, SOAP and SGD.

A transformer predicts the next character of Python source. Each optimizer is tuned alike with the
first seed: as many learning rates, by √10 apart, then the best of them with another value of a
second number. The setting with the lowest loss at the end is run with the other seeds, too. Seconds
are steps times the milliseconds of a step, which are measured after all runs, in turns of which the
quickest counts.

    python -m benchmarks.transformer --runs=FILE --picture=FILE
    python -m benchmarks.transformer --graph       # K-FAC and Adam in graph mode, beside Keras
    python -m benchmarks.transformer --start       # seconds to the end of the first step

Each run is kept in the file of --runs, and a run that is there is not made again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from benchmarks import curves, harness, loss_pictures
from benchmarks.curves import Curve
from benchmarks.transformer import text
from examples.lazy_module import LazyModule

graph = LazyModule("benchmarks.transformer.graph")
race = LazyModule("benchmarks.transformer.race")


Setting = tuple[float, float]

FLAGS = flags.FLAGS
BLOCK = 50
"""Steps of an optimizer that are timed in a turn: as long as no period of K-FAC is longer."""


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string("data_dir", None, "Python files; without it those of the standard library")
    flags.DEFINE_string("optimizers", None, "names, with semicolons between; without it all")
    flags.DEFINE_integer("rates", 5, "learning rates of each optimizer", lower_bound=1)
    flags.DEFINE_integer("seeds", 3, "runs of the best setting", lower_bound=1)
    flags.DEFINE_integer("blocks", 2, "blocks of the network", lower_bound=1)
    flags.DEFINE_integer("width", 128, "features of a position", lower_bound=8)
    flags.DEFINE_integer("steps", 300, "steps of each run", lower_bound=1)
    flags.DEFINE_integer("every", 20, "steps between two measurements of the loss", lower_bound=1)
    flags.DEFINE_list("losses", ["2.4", "2.25", "2.14", "2.03"], "losses to reach, falling")
    flags.DEFINE_string("runs", None, "JSON file that keeps the runs")
    flags.DEFINE_integer("rounds", 5, "turns in which steps are timed", lower_bound=1)
    flags.DEFINE_boolean("graph", False, "compare with graph mode, and do not race")
    flags.DEFINE_boolean("start", False, "time the way to the first step's end, and do not race")
    harness.define_flags(picture=True)


class Runs:
    """Runs, each made once; those in a file, if there is one, are not made again."""

    def __init__(self, path: str | None, source: text.Text, size: race.Size) -> None:
        """Reads the file.

        Raises:
          ValueError: Its runs are of other sizes.
        """
        self._path = None if path is None else pathlib.Path(path)
        self._text = source
        self.size = size
        self._kept: dict[str, Any] = {"size": dataclasses.asdict(size)}
        if self._path is not None and self._path.exists():
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            if kept["size"] != self._kept["size"]:
                raise ValueError(
                    f"--runs={path} has runs of {kept['size']}, and {self._kept['size']} was asked "
                    "for. Pass another file, or the same sizes."
                )
            self._kept = kept

    def run(self, name: str, setting: Setting, seed: int = 0, best: Curve | None = None) -> Curve:
        """Returns the curve of a run; see `race.train`."""
        key = f"{name}|{setting[0]:g}|{setting[1]:g}|{seed}"
        if key not in self._kept:
            curve = race.train(name, setting, self._text, self.size, seed, best)
            self._kept[key] = curve
            if self._path is not None:
                self._path.write_text(json.dumps(self._kept) + "\n", encoding="utf-8")
            print(f"{key}: loss {curve.losses[-1]:.3f} after {curve.steps[-1]} steps", flush=True)
        return Curve(*self._kept[key])

    def tune(self, name: str, points: int) -> Setting:
        """Returns the best setting of an optimizer: of all rates, then of all second numbers."""
        rates, numbers = race.grid(name, points)
        found = {}
        for setting in [(rate, numbers[0]) for rate in rates]:
            found[setting] = self.run(name, setting, best=_best(found))
        best = min(found, key=lambda setting: _last(found[setting], self.size))
        for setting in [(best[0], number) for number in numbers[1:]]:
            found[setting] = self.run(name, setting, best=found[best])
        return min(found, key=lambda setting: _last(found[setting], self.size))


def _best(found: Mapping[Setting, Curve]) -> Curve | None:
    """Returns the run with the lowest loss of those that went on longest."""
    return min(found.values(), key=lambda curve: (-curve.steps[-1], curve.losses[-1]), default=None)


def _last(curve: Curve, size: race.Size) -> float:
    """Returns the loss at the end of a run; infinity if it ended early, or the loss is none."""
    loss = curve.losses[-1]
    is_whole = curve.steps[-1] + size.every > size.steps and math.isfinite(loss)
    return loss if is_whole else math.inf


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, prints its table, and draws the curves with --picture."""
    size = race.Size(FLAGS.blocks, FLAGS.width, steps=FLAGS.steps, every=FLAGS.every)
    characters, losses = text.load(FLAGS.data_dir), [float(loss) for loss in FLAGS.losses]
    if FLAGS.graph:
        compare_with_graph_mode(characters, size)
        return
    if FLAGS.start:
        compare_starts(characters, size)
        return
    names = FLAGS.optimizers.split(";") if FLAGS.optimizers else list(race.OPTIMIZERS)
    runs = Runs(FLAGS.runs, characters, size)
    best = {name: runs.tune(name, FLAGS.rates) for name in names}
    found = {n: [runs.run(n, best[n], seed) for seed in range(FLAGS.seeds)] for n in names}
    programs = {n: race.Program(n, best[n], characters, size) for n in names}
    turns = harness.take_turns(programs, FLAGS.rounds, BLOCK, warm_up=BLOCK)
    seconds = {name: min(times) for name, times in turns.items()}  # Other work only adds to them.
    raced = {
        n: curves.Raced(" and ".join(f"{x:g}" for x in best[n]), seconds[n], found[n])
        for n in names
    }
    print("\n".join(curves.table(raced, losses, "nats", "setting")))
    measured = {n: {"setting": best[n], "runs": found[n], "seconds": turns[n]} for n in names}
    harness.save({"size": dataclasses.asdict(size), "measured": measured})
    if FLAGS.picture:
        draw({n: [_on_clock(found[n][0], seconds[n])] for n in names}, losses[-1])


def _on_clock(curve: Curve, per_step: float) -> Curve:
    return curve._replace(seconds=[per_step * steps for steps in curve.steps])


def compare_with_graph_mode(characters: text.Text, size: race.Size) -> None:
    """Prints how far the losses of graph mode and Keras differ, and milliseconds per step."""
    for name in graph.RATES:
        of_keras, of_graph = graph.compare(name, characters, size)
        pairs = zip(of_keras.losses, of_graph.losses, strict=True)
        difference = max(abs(a - b) for a, b in pairs)
        print(
            f"{name}: {len(of_keras.losses)} losses from {of_keras.losses[0]:.3f} to "
            f"{of_keras.losses[-1]:.3f}, which differ by {difference:.1g} at most; "
            f"ms per step {1000 * of_keras.seconds:.0f} in Keras, {1000 * of_graph.seconds:.0f} in "
            "graph mode",
            flush=True,
        )


def compare_starts(characters: text.Text, size: race.Size) -> None:
    """Prints seconds from nothing to the end of the first step of `fit`, in turns."""
    race.start("SGD", characters, size)  # One-time work of TensorFlow.
    names = ["K-FAC, expand", "AdamW"]
    found = [[race.start(name, characters, size) for name in names] for _ in range(FLAGS.seeds)]
    for name, seconds in zip(names, zip(*found, strict=True), strict=True):
        print(f"{name}: the first step ends after {harness.spread(seconds, 2)} s")
    ratios = harness.ratios(*zip(*found, strict=True))
    print(f"{names[0]} / {names[1]}: {harness.spread(ratios, 2)}")


def draw(runs: Mapping[str, Sequence[Curve]], loss: float) -> None:
    """Draws the runs of the first seed, and a loss as a horizontal line."""
    row = loss_pictures.Row("transformer, Python source", runs, loss, f"{loss:g} nats")
    title = "Keras' fit of a character transformer, each optimizer at its best setting"
    label = "held-out loss, nats per character"
    loss_pictures.draw(title, label, [row], FLAGS.picture, "seconds: steps × seconds per step")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
