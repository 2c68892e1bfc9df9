"""The tables of measured clusters."""

import json

from benchmarks import harness
from benchmarks.scaling import all_reduce_points
from benchmarks.scaling.chains import SHAPES
from benchmarks.scaling.cluster_cases import Case, Point


def test_program_prints_medians_of_steps_and_contention(run_command, tmp_path):
    points = []
    for mode, workers, milliseconds, cpu in (
        ("local", 1, 4.0, 2.0),
        ("local", 2, 6.0, 3.0),
        *(("synchronous", 2, each, 1.0) for each in (9.0, 7.0, 8.0)),
    ):
        case = Case(mode, 256, 4, 16, workers)
        points.append(Point(case, 1e-3 * milliseconds, 1e-3 * cpu, 5e-4, 1e6, 0.02).as_json())
    data = tmp_path / "points.json"
    harness.write_record(str(data), points)
    done = run_command("-m", "benchmarks.scaling", f"--points={data}")
    assert json.loads(data.read_text())["date"][:10] in done.stdout
    assert "Other programs took 0.02 cores, at most 0.02." in done.stdout
    assert "| local | 4 × 256², 16 | 4.0 | 6.0 |" in done.stdout
    assert "| synchronous | 4 × 256², 16 |  | 8.0 |" in done.stdout
    assert "| local: 4 × 256², 16 | 1.00 | 1.50 |" in done.stdout


def test_all_reduce_is_compared_with_keras():
    first = SHAPES[0]
    found = {("all_reduce", first, 2): [0.004, 0.006], ("keras", first, 2): [0.010]}
    *_, ours, theirs = all_reduce_points.table(found)
    assert ours == "| all_reduce | 4 × 256², 512 | 5.0 (0.50) |"
    assert theirs == "| keras | 4 × 256², 512 | 10.0 |"
