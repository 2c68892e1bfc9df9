"""Points of clusters that are measured, and the cases that they are for."""

import os

import pytest

import kfac
from benchmarks.scaling import cluster_cases, cluster_points, cluster_processes
from benchmarks.scaling.cluster_cases import Case


def test_snapshots_give_cores_of_other_programs():
    before = cluster_processes.Snapshot(time=1.0, cpu=(1.0, 2.0), busy=10.0, sent=0)
    after = cluster_processes.Snapshot(time=3.0, cpu=(2.0, 2.5), busy=12.5, sent=5)
    assert before.others_until(after) == 0.5


class Talking:
    """Process with fixed messages."""

    pid = os.getpid()

    def __init__(self, **said):
        self._said = said

    def tell(self, line):
        pass

    def expect(self, key):
        return self._said


def cluster_of(*processes):
    cluster = cluster_processes.Cluster(len(processes))
    cluster._processes = [Talking(), *processes]
    return cluster


def test_only_workers_with_gradients_are_timed():
    quick, idle = {"steps": 8, "seconds": 2.0}, {"steps": 0, "seconds": 2.0}
    cluster = cluster_of(Talking(**quick), Talking(**quick), Talking(**idle))
    found = cluster.run(Case("dedicated_workers", 8, 2, 1, 3), settle=0.0, window=0.01)
    assert found.seconds == pytest.approx(0.25)
    found = cluster.run(Case("shared", 8, 2, 1, 3), settle=0.0, window=0.01)
    assert found.seconds == pytest.approx(0.375)
    # A window without steps is refused.
    cluster = cluster_of(Talking(steps=0, seconds=0.01))
    with pytest.raises(SystemExit, match=r"asynchronous-8.* no worker made two steps in 0.01 s"):
        cluster.run(Case("asynchronous", 8, 2, 1, 1), settle=0.0, window=0.01)


@pytest.mark.slow
def test_real_processes(monkeypatch):
    """Measures the bytes of one parameter server and two or three workers in each mode."""
    setting = {"width": 256, "layers": 4, "batch": 8}
    least = {"local": 2, "asynchronous": 2, "synchronous": 2, "averaging": 2, "shared": 2}
    least |= {"chief_worker": 2, "dedicated_workers": 3}
    cases = [Case(mode, workers=workers, **setting) for mode, workers in least.items()]
    monkeypatch.setattr(cluster_cases, "all_cases", lambda workers: cases)
    found = list(cluster_points.measure(3, settle=0.1, window=1.0, tries=1))
    assert [point.case for point in found] == cases
    by_mode = {point.case.mode: point for point in found}
    size = 4 * cases[0].layers * cases[0].width ** 2
    # Others may use the loopback interface as well, so there are no upper limits.
    kfac = {"shared": 5, "chief_worker": 4, "dedicated_workers": 3}
    for mode, times in {"asynchronous": 2, "synchronous": 2, "averaging": 0.2, **kfac}.items():
        assert by_mode[mode].sent > 0.85 * times * size, mode
        assert by_mode[mode].server > 0
        assert by_mode[mode].seconds > 0


@pytest.mark.parametrize("mode", cluster_cases.KFAC_MODES)
def test_gradient_workers_match_kfac_roles(mode):
    for workers in (3, 4, 5, 6):
        case = Case(mode, 8, 4, 1, workers)
        roles = [kfac.WorkerRole(mode, workers, index) for index in range(workers)]
        assert [index < case.gradients for index in range(workers)] == [
            role.computes_gradients for role in roles
        ]
