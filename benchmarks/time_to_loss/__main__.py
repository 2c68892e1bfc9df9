"""Steps and seconds that K-FAC needs to reach the loss of tuned Adam after 2,000 steps.

Each optimizer has the same seeds and the same number of settings to choose from. All optimizers
train in one process, in short alternating blocks, so that other load on the machine slows all of
them. The loss over all training data is computed between the blocks and is not timed.

With --rival, other K-FAC implementations race against Adam in their own framework and environment.
If one fails, the others still run.

    python -m benchmarks.time_to_loss --seeds=3 --rival=tensorflow-kfac
"""

from collections.abc import Iterator, Sequence

from absl import app, flags

from benchmarks import harness
from benchmarks.rivals import environments
from benchmarks.time_to_loss import loss_race

OURS = "ours"

FLAGS = flags.FLAGS


def race_ours(problem: str) -> list[loss_race.Curve]:
    """Trains with the optimizers of this project and of TensorFlow on a problem."""
    chosen = {loss_race.BASELINE, *FLAGS.optimizer}
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
    """Trains with a rival on a problem. Installs the rival first if needed."""
    python = environments.install(name, FLAGS.environments)
    return [
        curve
        for seed in range(1, FLAGS.rival_seeds + 1)
        for curve in loss_race.race_rival(name, python, problem, seed, FLAGS.steps, FLAGS.seconds)
    ]


def race_all(problem: str) -> Iterator[tuple[str, list[loss_race.Curve]]]:
    """Yields (name, runs) of our optimizers and each rival; no runs for a rival that failed."""
    yield OURS, race_ours(problem)
    for name in (n for n in FLAGS.rival if problem in loss_race.DAMPING[n]):
        try:
            yield name, race_rival(name, problem)
        except harness.ChildError as error:
            print(error, flush=True)
            yield name, []


def main(_: Sequence[str]) -> int:
    """Runs the races, then prints, saves and draws the results. Returns the exit code."""
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
        harness.write_record(FLAGS.json, dictionaries)
    if FLAGS.picture:
        from benchmarks.time_to_loss.loss_curves import draw  # noqa: PLC0415

        draw(found, FLAGS.picture)
    return int(not is_complete)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    environments.define_flags([])
    flags.adopt_module_key_flags(environments)
    flags.DEFINE_multi_enum(
        "problem",
        list(loss_race.PROBLEMS),
        loss_race.PROBLEMS,
        "Problem to train on; may be repeated.",
    )
    optimizers = list(loss_race.SETTINGS)
    flags.DEFINE_multi_enum(
        "optimizer", optimizers, optimizers, "Optimizer besides Adam; may be repeated."
    )
    flags.DEFINE_integer("seeds", 3, "Number of seeds.", lower_bound=1)
    flags.DEFINE_integer("rival_seeds", 3, "Number of seeds of the rivals.", lower_bound=1)
    flags.DEFINE_integer(
        "steps", 2000, "Steps of Adam.", lower_bound=loss_race.BLOCK[loss_race.BASELINE]
    )
    flags.DEFINE_float("seconds", 200, "Time limit of a rival's races with one seed.")
    flags.DEFINE_string("json", None, "File to write all curves to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the curves to.")


if __name__ == "__main__":
    define_flags()
    app.run(main)
