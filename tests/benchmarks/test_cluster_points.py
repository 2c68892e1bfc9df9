from pathlib import Path

import pytest

from benchmarks import cluster_cases, cluster_points, cluster_processes
from benchmarks.cluster_cases import Case, Point


def test_line():
    found = Point(Case("synchronous", 256, 4, 16, 2), 0.0123, 0.004, 0.0021, 3.2e6, 0.25)
    words = cluster_points.line(found).split()
    assert words[:8] == ["synchronous", "4", "x", "256²,", "batch", "16", "2", "workers"]
    assert words[8:12] == ["12.30", "ms", "CPU", "ms:"]
    assert words[12:18] == ["worker", "4.00,", "server", "2.10", "3.20", "MB"]
    assert words[18:] == ["others", "0.25", "cores"]


def test_others_are_whoever_else_keeps_the_machine_busy():
    before = cluster_processes.Snapshot(time=1.0, cpu=(1.0, 2.0), busy=10.0, sent=0)
    after = cluster_processes.Snapshot(time=3.0, cpu=(2.0, 2.5), busy=12.5, sent=5)
    assert before.others_until(after) == 0.5


@pytest.mark.slow
def test_real_processes(monkeypatch):
    """One parameter server and two workers in each mode: what goes over the wire."""
    setting = {"width": 256, "layers": 4, "batch": 8}
    cases = [Case("local", workers=1, **setting)]
    cases += [Case(mode, workers=2, **setting) for mode in cluster_cases.MODES[2:]]
    monkeypatch.setattr(cluster_cases, "all_cases", lambda workers: cases)
    found = list(cluster_points.measure(2, settle=0.1, window=1.0, tries=1))
    assert [point.case for point in found] == cases
    by_mode = {point.case.mode: point for point in found}
    size = cases[0].parameters
    # Others may use the loopback interface as well, so there are no upper limits.
    for mode, times in {"asynchronous": 2, "synchronous": 2, "averaging": 0.2, "shared": 5}.items():
        assert by_mode[mode].sent > 0.85 * times * size, mode
        assert by_mode[mode].server > 0
        assert by_mode[mode].seconds > 0


@pytest.mark.slow
def test_a_process_that_fails_ends_the_program(monkeypatch):
    monkeypatch.setattr(cluster_processes, "_PATIENCE_SECS", 60)
    broken = Case("asynchronous", -1, 2, 2, 1)
    with cluster_processes.Cluster(1) as cluster:
        pids = [process.pid for process in cluster._processes]
        with pytest.raises(SystemExit, match="worker 0 has ended"):
            cluster.run(broken, settle=0.0, window=0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
