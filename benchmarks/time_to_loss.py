"""How many steps and seconds K-FAC takes to the training loss that tuned Adam reaches in 2,000.

Each optimizer has the same number of settings to choose from, and the same seeds. All of them
train in one process, in short blocks that take turns, so that whatever else the machine does slows
all. The loss over all training data is computed between the blocks, outside of the timing.

With --rival, other K-FACs do the same, each against Adam in its own framework and environment
(`benchmarks.rival_races`); one that fails does not stop the others.

    python -m benchmarks.time_to_loss --seeds=3 --rival=tensorflow-kfac
"""

from collections.abc import Iterator, Sequence

from absl import app, flags

from benchmarks import children, loss_race, record, rival_environments, rival_races

OURS = "ours"

FLAGS = flags.FLAGS


def race_ours(problem: str) -> list[loss_race.Curve]:
    """Has the optimizers of this project, and TensorFlow's, train on a problem."""
    chosen = {loss_race.RIVAL, *FLAGS.optimizer}
    grid = [
        {name: setting for name, setting in settings.items() if name in chosen}
        for settings in loss_race.grid(problem)
    ]
    return [
        curve
        for seed in range(1, FLAGS.seeds + 1)
        for settings in grid
        for curve in loss_race.race(problem, settings, seed, FLAGS.steps)
    ]


def race_rival(name: str, problem: str) -> list[loss_race.Curve]:
    """Has a rival train on a problem; installs it before, if need be."""
    python = rival_environments.install(name, FLAGS.environments)
    return [
        curve
        for seed in range(1, FLAGS.rival_seeds + 1)
        for curve in rival_races.race(name, python, problem, seed, FLAGS.steps, FLAGS.seconds)
    ]


def race_all(problem: str) -> Iterator[tuple[str, list[loss_race.Curve]]]:
    """Yields who trained on a problem, and all runs; of a rival that failed, none."""
    yield OURS, race_ours(problem)
    for name in (n for n in FLAGS.rival if problem in rival_races.DAMPING[n]):
        try:
            yield name, race_rival(name, problem)
        except children.ChildError as error:
            print(error, flush=True)
            yield name, []


def main(_: Sequence[str]) -> int:
    """Races, prints, writes, draws; returns the exit code."""
    curves: dict[str, list[loss_race.Curve]] = {name: [] for name in (OURS, *FLAGS.rival)}
    found: dict[str, dict[str, loss_race.Result]] = {}
    is_complete = True
    for problem in FLAGS.problem:
        for name, runs in race_all(problem):
            curves[name].extend(runs)
            if not runs:
                is_complete = False
                continue
            results = loss_race.results(runs)
            print("\n".join([name, *loss_race.table(problem, results)]), flush=True)
            if name == OURS:
                found[problem] = results
            else:
                found[problem][name] = results["kfac"]
    if FLAGS.json:
        dictionaries = {name: [run._asdict() for run in runs] for name, runs in curves.items()}
        record.write(FLAGS.json, dictionaries)
    if FLAGS.picture:
        from benchmarks.loss_curves import draw  # noqa: PLC0415

        draw(found, FLAGS.picture)
    return int(not is_complete)


def define_flags() -> None:
    """Defines the flags of this program; not on import, as other benchmarks have the same names."""
    rival_environments.define_flags([])
    flags.adopt_module_key_flags(rival_environments)
    flags.DEFINE_multi_enum(
        "problem", list(loss_race.PROBLEMS), loss_race.PROBLEMS, "May be repeated."
    )
    optimizers = list(loss_race.SETTINGS)
    flags.DEFINE_multi_enum("optimizer", optimizers, optimizers, "Beside Adam; may be repeated.")
    flags.DEFINE_integer("seeds", 3, "How many seeds.", lower_bound=1)
    flags.DEFINE_integer("rival_seeds", 3, "How many seeds of the rivals.", lower_bound=1)
    flags.DEFINE_integer(
        "steps", 2000, "Steps of Adam.", lower_bound=loss_race.BLOCK[loss_race.RIVAL]
    )
    flags.DEFINE_float("seconds", 200, "After which a rival's races of a seed are given up.")
    flags.DEFINE_string("json", None, "File to write all curves to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the curves to.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
