import pytest

from benchmarks import cluster_cases, cluster_fit, cluster_plans
from benchmarks.cluster_cases import Case, Point
from benchmarks.cluster_plans import Constants, Costs, Training

TRUE = Constants(
    exchange=Costs(1e-4, 8e-10),
    worker=Costs(4e-5, 5e-10),
    server=Costs(3e-5, 3e-10),
    merge=Costs(1e-4, 1e-10),
    merge_cpu=Costs(5e-5, 2e-10),
    cores=2,
)


def simulated(case):
    """A point as it were if the simulator was right."""
    computing = case.batch * case.layers * 1e-6
    training = Training(case.parameters, case.layers, computing, case.interval)
    tensors, size = case.layers, case.parameters
    if not case.is_exchanged:
        seconds = computing * (3 if case.is_kfac else 1)
        return Point(case, 1.1 * seconds, seconds, 0.0, 0.0, 0.0)
    mode = "asynchronous" if case.mode in ("shared", "averaging") else case.mode
    seconds = cluster_plans.seconds_per_step(
        cluster_plans.PLANS[mode](training, case.workers), TRUE
    )
    server = TRUE.server.of(2 * tensors, 2 * size)
    if case.waits:
        server += TRUE.merge_cpu.of(tensors, size)
    worker = computing + TRUE.worker.of(2 * tensors, 2 * size)
    return Point(case, seconds, worker, server, 2.0 * size, 0.0)


@pytest.fixture(scope="module")
def found():
    return {case: simulated(case) for case in cluster_cases.all_cases(4)}


def test_constants_are_found_again(found):
    fitted = cluster_fit.constants(found, 2)
    assert fitted.cores == 2
    for field in Constants._fields[:-1]:
        assert getattr(fitted, field) == pytest.approx(getattr(TRUE, field)), field


def test_simulated_points_have_no_error(found):
    compared = cluster_fit.compare(found, cluster_fit.constants(found, 2))
    assert [each.case for each in compared] == [case for case in found if case.is_exchanged]
    for each in compared:
        if each.case.mode in ("asynchronous", "synchronous"):
            assert each.error == pytest.approx(0, abs=1e-6), each.case


def test_small_costs_are_those_of_one_worker(found):
    fitted = cluster_fit.constants(found, 2)
    case = Case("averaging", 512, 4, 16, 1)
    slower = {**found, case: found[case]._replace(seconds=1.0)}
    assert cluster_fit.training_of(case, slower, fitted).small > 0.9
    (error,) = [e.error for e in cluster_fit.compare(slower, fitted) if e.case == case]
    assert error == pytest.approx(0, abs=1e-6)
    of_two = Case("averaging", 512, 4, 16, 2)
    assert cluster_fit.training_of(of_two, slower, fitted).small > 0.9


def test_kfac_takes_what_it_takes_without_a_cluster(found):
    case = Case("shared", 256, 4, 512, 3)
    training = cluster_fit.training_of(case, found, cluster_fit.constants(found, 2))
    whole = training.statistics + training.preconditioning + training.inversion / case.interval
    assert whole == pytest.approx(2 * training.computing)
    assert training.factors == 8 * 256**2 * 4


def test_what_others_take_is_missing(found):
    fitted = cluster_fit.constants(found, 2)
    case = Case("asynchronous", 256, 4, 512, 4)
    (free,) = [e.simulated for e in cluster_fit.compare(found, fitted) if e.case == case]
    busy = {**found, case: found[case]._replace(others=1.0)}
    (slow,) = [e.simulated for e in cluster_fit.compare(busy, fitted) if e.case == case]
    assert slow == pytest.approx(2 * free, rel=0.05)


def test_constants_are_never_negative(found):
    quick = {
        case: point._replace(seconds=1e-9) if case.mode == "synchronous" else point
        for case, point in found.items()
    }
    assert cluster_fit.constants(quick, 2).merge == Costs(0, 0)


def test_medians():
    case = Case("local", 2, 2, 2, 1)
    points = [Point(case, float(n), n + 1.0, n + 2.0, n + 3.0, n + 4.0) for n in (5, 1, 3)]
    assert cluster_fit.medians(points) == {case: Point(case, 3.0, 4.0, 5.0, 6.0, 7.0)}


def test_missing_points_are_told():
    with pytest.raises(ValueError, match="local, asynchronous and synchronous"):
        cluster_fit.constants({}, 2)
