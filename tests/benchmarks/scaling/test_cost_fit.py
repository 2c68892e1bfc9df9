"""The model of costs: fitted to points, and simulated."""

import dataclasses

import pytest

from benchmarks.scaling import cluster_cases, cost_fit, training_plans
from benchmarks.scaling.cluster_cases import Case, Point
from benchmarks.scaling.simulator import Phase, Process, seconds_per_round
from benchmarks.scaling.training_plans import Constants, Costs, Training

TRUE = Constants(
    exchange=Costs(1.2e-3, 1e-4, 8e-10),
    worker=Costs(9e-4, 4e-5, 5e-10),
    server=Costs(8e-4, 3e-5, 3e-10),
    merge=Costs(3e-4, 1e-4, 1e-10),
    merge_cpu=Costs(4e-4, 5e-5, 2e-10),
    cores=2,
)


def simulated(case):
    """Returns a point of an ideal simulator, without small work."""
    computing = case.batch * case.layers * 1e-6
    own = computing * (3 if case.is_kfac else 1)
    if not case.is_exchanged:
        return Point(case, own * max(1.0, case.workers / 2), own, 0.0, 0.0, 0.0)
    training = Training(case.parameters, case.layers, computing, case.interval)
    if case.is_kfac:
        training = training._replace(factors=case.factors, statistics=2 * computing)
    plan = training_plans.PLANS[case.mode](training, case.workers)
    seconds = training_plans.seconds_per_step(plan, TRUE)
    cpu = training_plans.cpu_seconds_per_step(plan, TRUE) / case.gradients
    size, tensors = case.parameters, case.layers
    server = TRUE.server.of(1, 2 * tensors, 2 * size) if case.mode == "asynchronous" else 0.0
    return Point(case, seconds, cpu - server, server, 2.0 * size, 0.0)


def error_of(case, found):
    compared = cost_fit.compare(found, cost_fit.constants(found, 2))
    (error,) = [each.error for each in compared if each.case == case]
    return error


@pytest.fixture(scope="module")
def found():
    return {case: simulated(case) for case in cluster_cases.all_cases(4)}


def test_fit_recovers_constants_and_points(found):
    fitted = cost_fit.constants(found, 2)
    assert fitted.cores == 2
    for field in Constants._fields[:-1]:
        assert getattr(fitted, field) == pytest.approx(getattr(TRUE, field), rel=1e-5), field
    compared = cost_fit.compare(found, fitted)
    expected = [case for case in found if case.is_exchanged and not case.is_tiny]
    assert [each.case for each in compared] == expected
    for each in compared:
        if not each.case.is_kfac:
            assert each.error == pytest.approx(0, abs=1e-6), each.case


def test_constants_ignore_points_of_several_workers(found):
    """Points of several workers that exchange something have no influence, unless tiny."""
    slow = {
        case: point._replace(seconds=9.0, worker=9.0, server=9.0)
        if case.is_exchanged and case.workers > 1 and not case.is_tiny
        else point
        for case, point in found.items()
    }
    expected = cost_fit.constants(found, 2)
    assert cost_fit.constants(slow, 2) == expected
    for case in (Case("averaging", 512, 4, 16, 3), Case("shared", 256, 4, 512, 4)):
        training = cost_fit.training_of(case, slow, expected)
        assert training == cost_fit.training_of(case, found, expected)


def test_small_work_is_fitted_to_tiny_variables(found):
    fitted = cost_fit.constants(found, 2)
    case = Case("averaging", 512, 4, 16, 3)
    one, two = (dataclasses.replace(case.tiny, workers=number) for number in (1, 2))
    first, second = found[one], found[two]
    more = {
        **found,
        one: first._replace(seconds=first.seconds + 0.02, worker=first.worker + 0.01),
        two: second._replace(worker=second.worker + 0.02),
    }
    plain, training = (cost_fit.training_of(case, each, fitted) for each in (found, more))
    assert plain[-3:] == pytest.approx((0, 0, 0), abs=1e-9)
    # Of two workers' 0.02 s each, 0.01 are the chief's.
    assert training[-3:] == pytest.approx((0.02, 0.01, 0.03))


def test_small_work_of_dedicated_workers_is_equal(found):
    """The fit recovers them from the time of tiny variables."""
    fitted = cost_fit.constants(found, 2)
    case = Case("dedicated_workers", 256, 4, 512, 4)
    tiny = dataclasses.replace(case.tiny, workers=3)
    local = found[dataclasses.replace(tiny, mode="local", workers=1)].worker
    small = Training(tiny.parameters, 4, local, 10, factors=tiny.factors, statistics=2 * local)
    small = small._replace(small=0.01, chief_cpu=0.01, other_cpu=0.01)
    plan = training_plans.dedicated_workers(small, 3)
    seconds = training_plans.seconds_per_step(plan, fitted)
    slower = {**found, tiny: found[tiny]._replace(seconds=seconds)}
    training = cost_fit.training_of(case, slower, fitted)
    assert training[-3:] == pytest.approx((0.01, 0.01, 0.01), rel=1e-3)


def test_kfac_time_is_that_without_a_cluster(found):
    case = Case("shared", 256, 4, 512, 3)
    fitted = cost_fit.constants(found, 2)
    training = cost_fit.training_of(case, found, fitted)
    whole = training.statistics + training.preconditioning + training.inversion / case.interval
    assert whole == pytest.approx(2 * training.computing)
    assert training.factors == 8 * 256**2 * 4
    # As many workers compute side by side.
    beside = Case("local", 256, 4, 512, 3)
    slower = {**found, beside: found[beside]._replace(worker=0.5)}
    assert cost_fit.training_of(case, slower, fitted).computing == 0.5


def test_idle_and_busy_cores_lengthen_simulated_steps(found):
    case = Case("asynchronous", 256, 4, 512, 4)
    slower = {
        other: point._replace(seconds=1.25 * point.seconds)
        if other.workers == 4 and not other.is_exchanged
        else point
        for other, point in found.items()
    }
    assert error_of(case, slower) == pytest.approx(0.25, rel=0.05)
    # Cores of other programs are subtracted.
    busy = {**found, case: found[case]._replace(others=1.0)}
    assert error_of(case, busy) == pytest.approx(1, rel=0.05)
    rounding = {**found, case: found[case]._replace(others=-0.1)}
    assert error_of(case, rounding) == pytest.approx(0, abs=1e-6)


def test_points_of_a_case_are_replaced_by_their_medians():
    case = Case("local", 2, 2, 2, 1)
    points = [Point(case, float(n), n + 1.0, n + 2.0, n + 3.0, n + 4.0) for n in (5, 1, 3)]
    assert cost_fit.medians(points) == {case: Point(case, 3.0, 4.0, 5.0, 6.0, 7.0)}


def cores(seconds, demand=None):
    return Phase(seconds, {"cores": seconds if demand is None else demand})


CORES = [cores(1), cores(2)]
HALF_IDLE = [cores(4, demand=2)]
SERVED = [Phase(1.0, {}), Phase(0.5, {"server": 0.5})]
BOTH_WAYS = [Phase(1.0, {"down": 1.0}), Phase(1.0, {"up": 1.0})]


@pytest.mark.parametrize(
    ("phases", "number", "capacities", "expected"),
    [
        (CORES, 1, {"cores": 1}, 3),
        (CORES, 2, {"cores": 2}, 3),
        (CORES, 2, {"cores": 1}, 6),
        (CORES, 3, {"cores": 2}, 4.5),
        (HALF_IDLE, 2, {"cores": 1}, 4),
        (HALF_IDLE, 3, {"cores": 1}, 6),
        (SERVED, 1, {"server": 1}, 1.5),
        (SERVED, 100, {"server": 1}, 50),
        (BOTH_WAYS, 50, {"down": 1, "up": 1}, 50),
    ],
)
def test_processes_share_cores_servers_and_links(phases, number, capacities, expected):
    found = seconds_per_round([Process(phases, number)], capacities)
    assert found == pytest.approx(expected, rel=0.1 if phases is BOTH_WAYS else 0.02)


def test_waiting_processes_wait_for_the_slowest_and_the_closing():
    quick, slow = Process([Phase(1.0, {})], 3, True), Process([Phase(4.0, {})], 1, True)
    assert seconds_per_round([quick, slow], {}, [Phase(2.0, {}), Phase(0.5, {})]) == 6.5
    assert seconds_per_round([quick, slow], {}) == 4
