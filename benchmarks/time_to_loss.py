"""How many steps and seconds K-FAC takes to the training loss that tuned Adam reaches in 2,000.

Each optimizer has the same number of settings to choose from, and the same seeds. All of them
train in one process, in short blocks that take turns, so that whatever else the machine does slows
all. The loss over all training data is computed between the blocks, outside of the timing.

    python -m benchmarks.time_to_loss --seeds=3 --picture=docs/kfac_curves.png
"""

from collections.abc import Sequence

from absl import app, flags

from benchmarks import loss_race, record

FLAGS = flags.FLAGS


def main(argv: Sequence[str]) -> None:
    """Races, prints, writes, draws."""
    del argv
    curves = []
    found = {}
    for problem in FLAGS.problem:
        runs = [
            curve
            for seed in range(1, FLAGS.seeds + 1)
            for settings in loss_race.grid(problem)
            for curve in loss_race.race(problem, settings, seed, FLAGS.steps)
        ]
        found[problem] = loss_race.results(runs)
        curves.extend(runs)
        print("\n".join(loss_race.table(problem, found[problem])), flush=True)
    if FLAGS.json:
        record.write(FLAGS.json, [curve._asdict() for curve in curves])
    if FLAGS.picture:
        from benchmarks.loss_curves import draw  # noqa: PLC0415

        draw(found, FLAGS.picture)


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    flags.DEFINE_multi_enum(
        "problem", list(loss_race.PROBLEMS), loss_race.PROBLEMS, "May be repeated."
    )
    flags.DEFINE_integer("seeds", 3, "How many seeds.", lower_bound=1)
    flags.DEFINE_integer(
        "steps", 2000, "Steps of Adam.", lower_bound=loss_race.BLOCK[loss_race.RIVAL]
    )
    flags.DEFINE_string("json", None, "File to write all curves to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the curves to.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
