import json

from benchmarks import cluster_cases
from benchmarks.cluster_cases import Case, Point


def test_sizes():
    case = Case("shared", width=3, layers=2, batch=5, workers=4)
    assert case.parameters == 2 * 9 * 4
    assert case.factors == 2 * (9 + 9) * 4
    assert case.waits
    assert case.is_kfac
    assert case.is_exchanged


def test_points_survive_json():
    point = Point(Case("local kfac", 3, 2, 5, 1), 0.1, 0.2, 0.0, 4.0, 0.5)
    assert Point.from_json(json.loads(json.dumps(point.as_json()))) == point


def test_every_case_is_there_once():
    cases = list(cluster_cases.all_cases(4))
    assert len({case.name for case in cases}) == len(cases)
    assert {case.mode for case in cases} == set(cluster_cases.MODES)
    assert all(name.replace("-", "").isalnum() for name in (case.name for case in cases))
    exchanged = [case.workers for case in cases if case.is_exchanged]
    assert exchanged.count(1) == exchanged.count(4) == 8
