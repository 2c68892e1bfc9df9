"""Steps and seconds that K-FAC needs to reach the loss of tuned Adam after 2,000 steps.

Each optimizer has the same seeds and the same number of settings to choose from. All optimizers
train in one process, in short alternating blocks, so that other load on the machine slows all of
them. The loss over the training data is computed between the blocks and is not timed.

With --rival, other K-FACs, or matrix optimizers in PyTorch, race against Adam in their own
framework and environment. If one fails, the others still run. With --data_dir, all train on MNIST.

    python -m benchmarks.time_to_loss --seeds=3 --rival=tensorflow-kfac --rival=pytorch
"""

from collections.abc import Iterator, Mapping, Sequence

from absl import flags

from benchmarks import harness
from benchmarks.rivals import environments
from benchmarks.time_to_loss import loss_race, race_settings
from benchmarks.time_to_loss.race_settings import (
    BASELINE,
    GROWING,
    RIVAL_SETTINGS,
    SETTINGS,
    Problem,
)

OURS = "ours"

FLAGS = flags.FLAGS


def race_ours(problem: Problem) -> list[loss_race.Curve]:
    """Trains with the optimizers of this project and of TensorFlow on a problem."""
    grid = loss_race.grid(problem, SETTINGS, {BASELINE, *FLAGS.optimizer}, FLAGS.middle)
    curves = []
    for seed in range(1, FLAGS.seeds + 1):
        for settings in grid:
            runs = loss_race.race(problem, settings, seed, FLAGS.steps)
            report(runs)
            curves += runs
    return curves


def race_rival(name: str, problem: Problem) -> tuple[list[loss_race.Curve], list[str]]:
    """Trains with a rival on a problem. Installs the rival first if needed.

    Returns:
      The training runs, and what went wrong. If the rival itself fails, there are no runs.
    """
    curves, troubles = [], []
    try:
        rival = name, environments.install(name, FLAGS.environments)
        for seed in range(1, FLAGS.rival_seeds + 1):
            runs, said = loss_race.race_rival(
                rival,
                problem,
                FLAGS.rival_optimizer,
                seed,
                FLAGS.steps,
                FLAGS.seconds,
                FLAGS.middle,
            )
            report(runs)
            curves += runs
            troubles += said
    except harness.ChildError as error:
        return [], [str(error)]
    return curves, troubles


def report(curves: Sequence[loss_race.Curve]) -> None:
    """Prints a line for each run, so that a race of hours shows how far it is."""
    print("\n".join(map(loss_race.line, curves)), flush=True)


def race_all(problem: Problem) -> Iterator[tuple[str, list[loss_race.Curve], list[str]]]:
    """Yields (name, runs, troubles) of our optimizers and of each rival with this problem."""
    yield OURS, race_ours(problem), []
    for name in FLAGS.rival:
        if all(problem.name in settings for settings in RIVAL_SETTINGS[name].values()):
            yield name, *race_rival(name, problem)
        else:
            print(f"{name} does not train on {problem.name} here.")


def main(_: Sequence[str]) -> int:
    """Runs the races, then prints, saves and draws the results. Returns the exit code."""
    curves: dict[str, list[loss_race.Curve]] = {name: [] for name in (OURS, *FLAGS.rival)}
    found: dict[str, dict[str, loss_race.Result]] = {}
    is_complete = True
    for problem in (Problem(model, FLAGS.data_dir, FLAGS.weights) for model in FLAGS.problem):
        for name, runs, troubles in race_all(problem):
            print("\n".join([name, *troubles]), flush=True)
            curves[name].extend(runs)
            is_complete = is_complete and not troubles
            if not runs:
                continue
            results = loss_race.results(runs)
            print("\n".join(loss_race.table(problem.name, results)), flush=True)
            found.setdefault(problem.name, {}).update(drawn(name, results))
    for line in (line for name in FLAGS.rival for line in environments.RIVALS[name].missing):
        print(line)
    if FLAGS.json:
        dictionaries = {name: [run._asdict() for run in runs] for name, runs in curves.items()}
        harness.write_record(FLAGS.json, dictionaries)
    if FLAGS.picture:
        from benchmarks.time_to_loss.loss_curves import draw  # noqa: PLC0415

        draw(found, FLAGS.picture)
    return int(not is_complete)


def drawn(name: str, results: Mapping[str, loss_race.Result]) -> dict[str, loss_race.Result]:
    """Returns the results to draw: all of ours, and a rival's without its Adam and SGD.

    Other K-FACs have the name of the rival.
    """
    if name == OURS:
        return dict(results)
    yardsticks = race_settings.yardsticks(RIVAL_SETTINGS[name])
    return {
        name if optimizer == "kfac" else optimizer: result
        for optimizer, result in results.items()
        if optimizer not in yardsticks
    }


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    environments.define_flags("losses")
    flags.adopt_module_key_flags(environments)
    flags.DEFINE_multi_enum(
        "problem",
        list(race_settings.MODELS),
        race_settings.MODELS,
        "Problem to train on; may be repeated.",
    )
    flags.DEFINE_multi_enum(
        "optimizer",
        [name for name in SETTINGS if name != GROWING],
        list(SETTINGS),
        "Optimizer besides Adam; may be repeated.",
    )
    theirs = [
        name
        for settings in RIVAL_SETTINGS.values()
        for name in settings
        if name not in race_settings.yardsticks(settings)
    ]
    theirs = list(dict.fromkeys(theirs))
    flags.DEFINE_multi_enum(
        "rival_optimizer", theirs, theirs, "Optimizer of the rivals besides Adam; may be repeated."
    )
    flags.DEFINE_string(
        "data_dir", "", "Folder of MNIST's IDX files; empty: scikit-learn's digits."
    )
    flags.DEFINE_enum(
        "weights",
        race_settings.WEIGHTS[0],
        race_settings.WEIGHTS,
        "Initial weights of the autoencoder on MNIST.",
    )
    flags.DEFINE_integer("seeds", 3, "Number of seeds.", lower_bound=1)
    flags.DEFINE_integer("rival_seeds", 3, "Number of seeds of the rivals.", lower_bound=1)
    flags.DEFINE_integer("steps", 2000, "Steps of Adam.", lower_bound=race_settings.BLOCK[BASELINE])
    flags.DEFINE_bool("middle", False, "Race with the middle setting of each optimizer only.")
    flags.DEFINE_float("seconds", 200, "Time limit of a rival's races with one seed.")
    flags.DEFINE_string("json", None, "File to write all curves to.")
    flags.DEFINE_string("picture", None, "PNG file to draw the curves to.")


if __name__ == "__main__":
    define_flags()
    harness.run(main)
