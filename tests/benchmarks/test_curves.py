from benchmarks.curves import Curve, Raced, record, table

FAST = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.09, 0.02])
SLOW = Curve([0, 10, 20], [0.0, 1.0, 2.0], [2.0, 0.5, 0.05])


def test_run_is_measured_at_even_distances_until_it_is_over():
    losses = iter([3.0, 2.0, 1.0, 0.0])
    curve = record(lambda: next(losses), lambda: 0.5, 9, 3, lambda curve: curve.losses[-1] == 1)
    assert curve == Curve([0, 3, 6], [0.0, 0.5, 1.0], [3.0, 2.0, 1.0])
    assert curve.reach(2.5) == 3
    assert curve.reach(0.5) is None


def test_table_has_medians_of_seeds():
    raced = {"K-FAC": Raced("0.1", 0.1, [FAST, FAST, SLOW]), "SGD": Raced("1", 0.2, [SLOW])}
    heads, _, *rows = (" ".join(row.split()) for row in table(raced, [0.1, 0.03], "nats", "rate"))
    assert heads == "| optimizer | rate | ms per step | 0.1 nats | 0.03 nats | end |"
    last = "0.020 [0.020, 0.050]"
    assert rows[0] == f"| K-FAC | 0.1 | 100.0 | 10 steps, 1.0 s | 2 of 3 runs | {last} |"
    assert rows[1].endswith("| 20 steps, 4.0 s | 0 of 1 runs | 0.050 [0.050, 0.050] |")
