"""The model of all-reduce: fitted to points, simulated, and measured for real."""

import dataclasses

import pytest

from benchmarks.scaling import all_reduce_points, cluster_cases, reduce_fit, training_plans
from benchmarks.scaling.cluster_cases import Point
from benchmarks.scaling.training_plans import Constants, Costs, Training

NOTHING = Costs(0.0, 0.0, 0.0)
TRUE = Constants(
    *[NOTHING] * 5, cores=8, ring=Costs(1e-3, 2e-4, 2e-9), ring_cpu=Costs(5e-4, 1e-4, 1e-9)
)


def simulated(case):
    """A point of an ideal simulator, on as many cores as it takes."""
    computing = case.batch * case.layers * 1e-6
    if case.mode == "alone":
        return Point(case, computing, computing, 0.0, 0.0, 0.0)
    plan = training_plans.all_reduce(
        Training(case.parameters, case.layers, computing), case.workers
    )
    seconds = training_plans.seconds_per_step(plan, TRUE)
    cpu = training_plans.cpu_seconds_per_step(plan, TRUE) / case.workers
    return Point(case, seconds, cpu, 0.0, 0.0, 0.0)


@pytest.fixture
def found():
    return {case: simulated(case) for n in range(1, 5) for case in cluster_cases.reduce_cases(n)}


def test_fit_recovers_constants_and_points(found):
    fitted = reduce_fit.constants(found, TRUE._replace(ring=NOTHING, ring_cpu=NOTHING))
    assert fitted.ring == pytest.approx(TRUE.ring, rel=1e-6)
    assert fitted.ring_cpu == pytest.approx(TRUE.ring_cpu, rel=1e-6)
    compared = reduce_fit.compare(found, TRUE)
    assert len(compared) == 9
    assert max(abs(each.error) for each in compared) < 1e-6


def test_messages_between_more_workers_wait_as_tiny_ones_did(found):
    crowded = {}
    for case, point in found.items():
        plain = found[dataclasses.replace(case, mode="alone")].seconds
        ring = point.seconds - plain
        factor = case.workers - 1 if case.is_tiny else 1
        crowded[case] = point._replace(seconds=plain + factor * ring)
    errors = {each.case.workers: each.error for each in reduce_fit.compare(crowded, TRUE)}
    assert abs(errors[2]) < 1e-6
    assert 0 < errors[3] < 1
    assert errors[3] < errors[4] < 2


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_real_workers_are_measured():
    cases = [case for case in cluster_cases.reduce_cases(2) if case.is_tiny][:2]
    alone, reduced = all_reduce_points.measure(cases, settle=0.1, window=0.5)
    assert [alone.case.mode, reduced.case.mode] == ["alone", "all_reduce"]
    assert 0 < alone.worker < reduced.worker, "sums take time"
    assert min(alone.seconds, reduced.seconds) > 0
