import json

from benchmarks import harness
from benchmarks.scaling import __main__ as scaling
from benchmarks.scaling import cluster_cases
from benchmarks.scaling.cluster_cases import Case, Point
from benchmarks.scaling.cost_fit import Comparison
from benchmarks.scaling.training_plans import Constants, Costs

CONSTANTS = Constants(*[Costs(2e-4, 1e-4, 1e-9)] * 5, cores=2.0)


def test_errors_of_more_workers_are_counted():
    cases = [Case("synchronous", 256, 4, 16, workers) for workers in (1, 2, 3)]
    times = [(0.01, 0.01), (0.02, 0.025), (0.04, 0.036)]
    compared = [Comparison(case, *pair) for case, pair in zip(cases, times, strict=True)]
    *_, row, _, last = scaling.comparison_lines(compared)
    assert row.startswith("| synchronous | 4 × 256², 16 | 10.0 / 10.0 (+0 %) | 20.0 / 25.0 (+25 %)")
    assert "more, 1 of 2 points are within 20 %, with one 1 of 1; the largest error is 25" in last


def test_speedups(monkeypatch):
    assert 1e8 < scaling.copied_bytes_per_second() < 1e12
    monkeypatch.setattr(scaling, "COUNTS", (1, 4, 32))
    curves = scaling.speedups(CONSTANTS, None, 8, 10)
    # Simulated hosts do not share the cores of this machine.
    assert scaling.speedups(CONSTANTS._replace(cores=0.5), None, 8, 10) == curves
    counts, gains = zip(*curves["asynchronous"], strict=True)
    assert counts == (1, 4, 32)
    # No more than one link carries: 102 MB in 0.08 s and 0.3 s of computing.
    assert gains[2] <= 0.3 / (102e6 / 1.25e9) * 1.05
    assert all(gain <= count for curve in curves.values() for count, gain in curve)
    many = scaling.speedups(CONSTANTS, 1, 8, 10)
    assert many["synchronous"][2][1] > 4 * curves["synchronous"][2][1]
    assert [count for count, _ in curves["dedicated_workers"]] == [4, 32]


def test_program(run_command, tmp_path):
    """Prints and draws made-up times."""
    points = []
    for case in cluster_cases.all_cases(2):
        seconds = 1e-3 * case.workers * (1 + case.is_exchanged + case.waits + case.is_kfac)
        points.append(Point(case, seconds, 1e-3, 5e-4, 1e6, 0.02).as_json())
    data, picture = tmp_path / "points.json", tmp_path / "curves.png"
    harness.write_record(str(data), points)
    code = (
        "import sys; from absl import app; from benchmarks.scaling import __main__ as scaling\n"
        "scaling.COUNTS = (1, 2, 4); scaling.define_flags()\n"
        "try: app.run(scaling.main)\n"
        "finally: print('tensorflow' in sys.modules)"
    )
    options = [f"--points={data}", f"--picture={picture}"]
    done = run_command("-c", code, *options)
    assert json.loads(data.read_text())["date"][:10] in done.stdout
    assert "| shared | 4 × 256², 512 |" in done.stdout
    assert done.stdout.endswith("False\n")
    assert picture.stat().st_size > 5000
