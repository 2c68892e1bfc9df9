import json

import pytest

import kfac
from benchmarks.scaling import cluster_cases
from benchmarks.scaling.cluster_cases import Case, Point


def test_sizes():
    case = Case("shared", width=3, layers=2, batch=5, workers=4)
    assert case.parameters == 2 * 9 * 4
    assert case.factors == 2 * (9 + 9) * 4
    assert case.waits
    assert case.is_kfac
    assert case.is_exchanged


def test_tiny_cases_have_as_many_variables():
    case = Case("averaging", width=512, layers=4, batch=16, workers=2, interval=7)
    assert not case.is_tiny
    assert case.tiny.is_tiny
    assert case.tiny == Case("averaging", case.tiny.width, 4, 1, 2, 7)
    assert case.tiny.parameters < case.parameters / 1000


@pytest.mark.parametrize("mode", cluster_cases.KFAC_MODES)
@pytest.mark.parametrize("workers", [3, 4, 5, 6])
def test_gradient_workers_match_kfac_roles(mode, workers):
    case = Case(mode, 8, 4, 1, workers)
    roles = [kfac.WorkerRole(mode, workers, index) for index in range(workers)]
    assert [index < case.gradients for index in range(workers)] == [
        role.computes_gradients for role in roles
    ]


def test_point_json_round_trip():
    point = Point(Case("local kfac", 3, 2, 5, 1), 0.1, 0.2, 0.0, 4.0, 0.5)
    assert Point.from_json(json.loads(json.dumps(point.as_json()))) == point


def test_cases_are_unique_and_complete():
    cases = list(cluster_cases.all_cases(4))
    assert len({case.name for case in cases}) == len(cases)
    assert {case.mode for case in cases} == set(cluster_cases.MODES)
    assert all(name.replace("-", "").isalnum() for name in (case.name for case in cases))
    large = [case for case in cases if not case.is_tiny]
    exchanged = [case.workers for case in large if case.is_exchanged]
    assert [exchanged.count(workers) for workers in (1, 2, 3, 4)] == [9, 9, 10, 10]
    assert sorted(case.workers for case in large if not case.is_exchanged) == sorted(
        4 * [1, 2, 3, 4]
    )


def test_tiny_cases_have_few_workers():
    tiny = [case for case in cluster_cases.all_cases(4) if case.is_tiny]
    assert {case.mode for case in tiny} == set(cluster_cases.MODES)
    for case in tiny:
        most = 1 if not case.is_exchanged else 3 if case.mode == "dedicated_workers" else 2
        assert case.workers <= most
    assert not any(case.mode == "dedicated_workers" for case in cluster_cases.all_cases(2))
