"""Steps and seconds that K-FAC needs to reach the loss of tuned Adam after 2,000 steps.

With --rival, tensorflow/kfac races against Adam in its own environment; if it fails, ours still
run. With --data_dir, all train on MNIST.

    python -m benchmarks.time_to_loss --seeds=3 --rival=tensorflow-kfac
"""

import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from absl import flags

from benchmarks import harness, loss_pictures, rivals
from benchmarks.time_to_loss import loss_race, race_settings
from benchmarks.time_to_loss.loss_race import Run
from benchmarks.time_to_loss.race_settings import (
    BASELINE,
    GROWING,
    RIVAL_SETTINGS,
    SETTINGS,
    Problem,
    Settings,
)

OURS = "ours"

FLAGS = flags.FLAGS


def race_here(
    problem: Problem, all_settings: Settings, seed: int, weights: str = ""
) -> Iterator[Run]:
    """Yields the runs of all chosen optimizers of this process with a seed.

    `weights` names a file with the initial weights.
    """
    given = loss_race.read_weights(weights) if weights else []
    chosen = {BASELINE, *FLAGS.optimizer}
    for settings in loss_race.grid(problem, all_settings, chosen, FLAGS.middle):
        yield from loss_race.race(problem, settings, seed, FLAGS.steps, given)


def race_ours(problem: Problem) -> Iterator[Run]:
    """Yields the runs of the optimizers of this project and of TensorFlow on a problem."""
    for seed in range(1, FLAGS.seeds + 1):
        yield from race_here(problem, SETTINGS, seed)


def race_rival(problem: Problem) -> Iterator[Run]:
    """Yields the runs of tensorflow/kfac and of its Adam. Installs it first if needed.

    Raises:
      harness.ChildError: It could not be installed, failed, or exceeded the limit.
    """
    options = harness.given_flags("data_dir", "weights", "steps", "middle")
    for seed in range(1, FLAGS.rival_seeds + 1):
        purpose = f"race {rivals.NAME}, {problem.name}, seed {seed}"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weights.npz"
            loss_race.write_weights(path, problem, seed)
            case = [f"--here={path}", f"--problem={problem.model}", f"--seeds={seed}"]
            case += ["--optimizer=kfac", *options]
            command = rivals.command_of(rivals.NAME, "time_to_loss", *case)
            yield from (Run(**run) for run in harness.read_json(command, purpose, FLAGS.seconds))


def race_all(problem: Problem) -> dict[str, list[Run]]:
    """Returns the runs of ours and of the rival, and prints a line for each as it ends.

    If the rival fails, its error is printed, and it has no runs.
    """
    found: dict[str, list[Run]] = {}
    racers = {OURS: race_ours, **dict.fromkeys(FLAGS.rival, race_rival)}
    for name, racer in racers.items():
        print(name, flush=True)
        found[name] = []
        try:
            for run in racer(problem):
                print(loss_race.line(run), flush=True)
                found[name].append(run)
        except harness.ChildError as error:
            print(error, flush=True)
            found[name] = []
    return found


def main(_: Sequence[str]) -> int:
    """Runs the races, then prints, saves and draws the results. Returns the exit code.

    With --here, prints the runs of one seed as JSON.
    """
    if FLAGS.here:
        problem = Problem(FLAGS.problem[0], FLAGS.data_dir, FLAGS.weights)
        runs = race_here(problem, RIVAL_SETTINGS, FLAGS.seeds, FLAGS.here)
        print(json.dumps([run._asdict() for run in runs]))
        return 0
    curves: dict[str, list[Run]] = {name: [] for name in (OURS, *FLAGS.rival)}
    found: dict[str, dict[str, loss_race.Result]] = {}
    for problem in (Problem(model, FLAGS.data_dir, FLAGS.weights) for model in FLAGS.problem):
        for name, runs in race_all(problem).items():
            curves[name] += runs
            if runs:
                results = loss_race.results(runs)
                print("\n".join(loss_race.table(problem.name, results)), flush=True)
                found.setdefault(problem.name, {}).update(drawn(name, results))
    harness.save({name: [run._asdict() for run in runs] for name, runs in curves.items()})
    if FLAGS.picture:
        draw(found, FLAGS.picture)
    return int(not all(curves.values()))


def drawn(name: str, results: Mapping[str, loss_race.Result]) -> dict[str, loss_race.Result]:
    """Returns the results to draw: all of ours, and the rival's K-FAC by the name of the rival."""
    return dict(results) if name == OURS else {name: results["kfac"]}


def draw(found: Mapping[str, Mapping[str, loss_race.Result]], path: str) -> None:
    """Draws a row of two panels for each problem into a PNG file.

    Results are by optimizer and, for other K-FACs, by their name; by problem.
    """
    rows = []
    for problem, results in found.items():
        runs = {n: [run.curve for run in result.curves] for n, result in results.items()}
        target = statistics.median(run.lowest for run in results[BASELINE].curves)
        rows.append(loss_pictures.Row(problem, runs, target, "Adam's lowest", BASELINE))
    seeds = max(len(runs) for row in rows for runs in row.runs.values())
    title = "Training loss, each optimizer at its best setting"
    title += f", {seeds} seeds each" if seeds > 1 else ""
    loss_pictures.draw(title, "training loss, nats per image", rows, path)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    rivals.define_flags()
    problems, optimizers = race_settings.MODELS, list(SETTINGS)
    usual = [name for name in SETTINGS if name != GROWING]
    flags.DEFINE_multi_enum("problem", list(problems), problems, "Problem; may be repeated.")
    flags.DEFINE_multi_enum("optimizer", usual, optimizers, "Besides Adam; may be repeated.")
    flags.DEFINE_string("data_dir", "", "Folder of MNIST's files; empty: scikit-learn's digits.")
    weights = race_settings.WEIGHTS
    flags.DEFINE_enum("weights", weights[0], weights, "Initial weights of MNIST's autoencoder.")
    flags.DEFINE_integer("seeds", 3, "Number of seeds.", lower_bound=1)
    flags.DEFINE_integer("rival_seeds", 3, "Number of seeds of the rival.", lower_bound=1)
    flags.DEFINE_integer("steps", 2000, "Steps of Adam.", lower_bound=race_settings.BLOCK[BASELINE])
    flags.DEFINE_bool("middle", False, "Race with the middle setting of each optimizer only.")
    flags.DEFINE_float("seconds", 200, "Time limit of the rival's races with one seed.")
    flags.DEFINE_string("here", "", "Initial weights: race the rival here with the seed --seeds.")
    harness.define_flags(picture=True)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
