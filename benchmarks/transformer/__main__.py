"""Steps and seconds to a loss on held-out text: K-FAC, AdamW, Muon, SOAP and SGD.

A transformer predicts the next character of Python source. Each optimizer is tuned over as many
settings with the first seed: learning rates by √10 apart, times two values of a second number. The
one with the lowest loss at the end is run with the other seeds, too.

    python -m benchmarks.transformer --optimizers="K-FAC, expand;AdamW" --steps=300
"""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.keras_fit.race import Curve

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string("data_dir", None, "Python files; without it those of the standard library")
    flags.DEFINE_string("optimizers", None, "names, with semicolons between; without it all")
    flags.DEFINE_integer("rates", 5, "learning rates of each optimizer", lower_bound=1)
    flags.DEFINE_integer("seeds", 3, "runs of the best setting", lower_bound=1)
    flags.DEFINE_integer("blocks", 2, "blocks of the network", lower_bound=1)
    flags.DEFINE_integer("width", 128, "features of a position", lower_bound=8)
    flags.DEFINE_integer("steps", 600, "steps of each run", lower_bound=1)
    flags.DEFINE_integer("every", 50, "steps between two measurements of the loss", lower_bound=1)
    flags.DEFINE_list("losses", ["2.5", "2.0", "1.8"], "losses to reach, in nats, falling")
    harness.define_flags()


def row(
    name: str, setting: Sequence[float], curves: Sequence["Curve"], losses: Sequence[float]
) -> str:
    """Returns a row of the table: medians over seeds of steps and seconds to each loss."""
    cells = []
    for loss in losses:
        reached = [found for curve in curves if (found := curve.reach(loss)) is not None]
        if len(reached) < len(curves):
            cells.append(f"{len(reached)} of {len(curves)} runs")
            continue
        steps, seconds = (statistics.median(values) for values in zip(*reached, strict=True))
        cells.append(f"{steps:g} steps, {seconds:.1f} s")
    per_step = statistics.median(1000 * c.seconds[-1] / c.steps[-1] for c in curves)
    last = harness.spread([curve.losses[-1] for curve in curves], 3)
    text = " and ".join(f"{number:g}" for number in setting)
    return harness.markdown_row([name, text, f"{per_step:.0f}", *cells, last])


def main(_: Sequence[str]) -> None:
    """Runs the benchmark and prints its table."""
    from benchmarks.transformer import race, text  # noqa: PLC0415  # TensorFlow, after --help.

    size = race.Size(FLAGS.blocks, FLAGS.width, steps=FLAGS.steps, every=FLAGS.every)
    characters, losses = text.load(FLAGS.data_dir), [float(loss) for loss in FLAGS.losses]
    names = FLAGS.optimizers.split(";") if FLAGS.optimizers else list(race.OPTIMIZERS)
    measured, rows = {}, []
    for name in names:
        found = {}
        for setting in race.grid(name, FLAGS.rates):
            found[setting] = race.train(name, setting, characters, size, seed=0)
            print(f"{name} {setting}: loss {found[setting].losses[-1]:.3f}", flush=True)
        best = min(found, key=lambda setting: _last(found[setting]))
        others = range(1, FLAGS.seeds)
        curves = [found[best], *(race.train(name, best, characters, size, s) for s in others)]
        rows.append(row(name, best, curves, losses))
        print(rows[-1], flush=True)
        measured[name] = {
            "tuning": [[setting, curve._asdict()] for setting, curve in found.items()],
            "runs": [curve._asdict() for curve in curves],
        }
    head = ["optimizer", "setting", "ms per step", *(f"{loss:g} nats" for loss in losses), "end"]
    print("\n".join([harness.markdown_row(head), "|---" * len(head) + "|", *rows]))
    harness.save({"size": dataclasses.asdict(size), "measured": measured})


def _last(curve: "Curve") -> float:
    """Returns the loss at the end of a run; infinity if it is none."""
    return curve.losses[-1] if curve.losses[-1] == curve.losses[-1] else float("inf")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
