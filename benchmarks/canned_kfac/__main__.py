"""Time that K-FAC, Adam, Adagrad and SGD need to train a canned `DNNClassifier` to a loss.

python -m benchmarks.canned_kfac
python -m benchmarks.canned_kfac --problem=mnist --data_dir=DIR     # DIR has the IDX files
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness
from benchmarks.canned_kfac import problems
from examples.lazy_module import LazyModule

races = LazyModule("benchmarks.canned_kfac.races")


FLAGS = flags.FLAGS
BASELINE = "Adam"
HEADS = (
    "optimizer",
    "number",
    "steps",
    "ms per step",
    "start, s",
    "total, s",
    "/ Adam",
    "accuracy",
)


class Result(NamedTuple):
    """An optimizer on a problem: the best rate, and median steps to the target, if reached."""

    rate: float
    steps: int | None
    trainings: Sequence[races.Training]


def find_steps(problem: problems.Problem, name: str, seeds: int) -> tuple[float, int | None]:
    """Returns the best number of an optimizer, and the steps to the target."""
    curves = races.Curves(problem, name)
    _, rates = races.OPTIMIZERS[name]
    found = {rate: [curves.run(rate) for _ in range(seeds)] for rate in rates}
    curves.close()
    return races.best(found, problem.target)


def race(
    problem: problems.Problem, names: Sequence[str], seeds: int, rounds: int
) -> dict[str, Result]:
    """Returns the results of the optimizers on a problem."""
    chosen = {name: find_steps(problem, name, seeds) for name in names}
    trainings: dict[str, list[races.Training]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, (rate, steps) in chosen.items():
            if steps:
                trainings[name].append(races.time_training(problem, name, rate, steps))
    return {name: Result(*chosen[name], trainings[name]) for name in names}


def lines(name: str, problem: problems.Problem, results: Mapping[str, Result]) -> Iterator[str]:
    """Yields the lines of a table. Ratios compare with Adam in the same turn."""
    yield f"{name}: {problem.batch_size} rows in a step, held-out loss {problem.target:g}"
    rows = [[name, *_cells(result, results.get(BASELINE))] for name, result in results.items()]
    yield from ("", *harness.table(HEADS, rows), "")


def _cells(result: Result, baseline: Result | None) -> list[str]:
    found = result.trainings
    if not found:
        return [f"{result.rate:g}", "not reached", *[""] * (len(HEADS) - 3)]
    totals = [each.total for each in found]
    ratios = harness.ratios(totals, [each.total for each in baseline.trainings]) if baseline else []
    return [
        f"{result.rate:g}",
        f"{result.steps}",
        f"{statistics.median(1000 * each.per_step for each in found):.2f}",
        f"{statistics.median(each.start for each in found):.2f}",
        harness.spread(totals, 2),
        harness.spread(ratios, 2) if ratios else "",
        f"{statistics.median(each.accuracy for each in found):.3f}",
    ]


def main(_: Sequence[str]) -> None:
    """Runs the races, then prints and saves the results."""
    names = FLAGS.optimizer or list(races.OPTIMIZERS)
    found = {}
    for name in FLAGS.problem:
        problem = problems.load(name, FLAGS.data_dir)
        found[name] = race(problem, names, FLAGS.seeds, FLAGS.rounds)
        print("\n".join(lines(name, problem, found[name])), flush=True)
    measured = {
        name: {optimizer: result._asdict() for optimizer, result in results.items()}
        for name, results in found.items()
    }
    harness.save(measured)


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum(
        "problem",
        list(problems.BUNDLED),
        [*problems.BUNDLED, problems.MNIST],
        "Problem; may be repeated.",
    )
    flags.DEFINE_multi_string("optimizer", [], "Optimizer; may be repeated. Default: all.")
    flags.DEFINE_string("data_dir", None, "Folder of MNIST's IDX files.")
    flags.DEFINE_integer("seeds", 3, "Untimed runs of each number.", lower_bound=1)
    flags.DEFINE_integer("rounds", 3, "Timed trainings of each optimizer.", lower_bound=1)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
