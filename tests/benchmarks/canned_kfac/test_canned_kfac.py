from benchmarks.canned_kfac import __main__ as benchmark
from benchmarks.canned_kfac import problems, races
from benchmarks.canned_kfac.races import Training
from benchmarks.curves import Curve

FAST = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.09, 0.2])
SLOW = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.5, 0.1])
NEVER = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.5, 0.3])
WORSE = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.5, 0.4])


def test_best_number_needs_the_fewest_steps_in_most_runs():
    curves = {0.1: [SLOW, SLOW, FAST], 0.3: [FAST, FAST, NEVER], 1.0: [FAST, NEVER, NEVER]}
    assert races.best(curves, 0.1) == (0.3, 10)
    # Without a run that reaches it the lowest loss counts.
    assert races.best({0.1: [WORSE], 0.3: [NEVER]}, 0.1) == (0.3, None)


def test_table_compares_totals_of_the_same_turn():
    problem = problems.load("wine", None)
    results = {
        "K-FAC": benchmark.Result(
            0.1, 11, [Training(8.0, 3.0, 0.2, 0.75), Training(4.0, 1.0, 0.2, 0.75)]
        ),
        "Adam": benchmark.Result(0.01, 11, [Training(4.0, 1.0, 0.1, 0.75)] * 2),
        "SGD": benchmark.Result(0.3, None, []),
    }
    rows = [" ".join(line.split()) for line in benchmark.lines("wine", problem, results)]
    assert rows[0] == "wine: 64 rows in a step, held-out loss 0.1"
    processor = "6.00 [4.00, 8.00] | 1.50 [1.00, 2.00]"
    cells = f"0.1 | 11 | 200.00 | 2.00 | {processor} | 0.750"
    assert f"| K-FAC | {cells} |" in rows
    assert any(row.startswith("| SGD | 0.3 | not reached |") for row in rows)


def test_runs_begin_anew():
    """The same number reaches about the same loss from other weights."""
    problem = problems.load("wine", None)._replace(steps=12, every=4, target=0.0)
    curves = races.Curves(problem, "K-FAC")
    first, second = curves.run(0.1), curves.run(0.1)
    curves.close()
    assert first.steps == second.steps == [0, 4, 8, 12]
    assert first.losses[0] != second.losses[0]
    assert max(first.losses[-1], second.losses[-1]) < 0.5 * min(first.losses[0], second.losses[0])
