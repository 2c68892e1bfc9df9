import dataclasses

import pytest

from kfac.scheduling.worker_roles import WorkerRole


def roles(strategy, count):
    return [WorkerRole(strategy, count, index) for index in range(count)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, "g g ci"),
        (4, "g g g ci"),
        (5, "g g g c i"),
        (6, "g g g g c i"),
        (8, "g g g g g c c i"),
        (10, "g g g g g g c c i i"),
    ],
)
def test_dedicated_workers(count, expected):
    found = roles("dedicated_workers", count)
    assert " ".join("".join(w[0] for w in role.name.split(", ")) for role in found) == expected
    assert [role.folds_statistics for role in found].count(True) == 1
    assert all(role.adds_statistics for role in found if role.folds_statistics)
    gradients = [role for role in found if role.computes_gradients]
    assert {role.replicas_to_aggregate for role in found} == {len(gradients)}
    assert found[0].is_chief
    assert gradients[0] == found[0]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_chief_worker(count):
    chief, *others = roles("chief_worker", count)
    assert chief.name == "gradients, covariances, inverses"
    assert chief.is_chief
    assert chief.folds_statistics
    assert chief.owned([1, 2, 3]) == [0, 1, 2]
    for role in others:
        assert role.name == "gradients"
        assert (role.is_chief, role.folds_statistics) == (False, False)
        assert role.owned([1, 2, 3]) == []
    assert {role.replicas_to_aggregate for role in (chief, *others)} == {count}


def test_shared():
    found = roles("shared", 3)
    assert {role.name for role in found} == {"gradients, covariances, inverses"}
    assert [role.folds_statistics for role in found] == [True, False, False]
    assert {role.replicas_to_aggregate for role in found} == {3}


def test_inverses_are_shared_by_cost():
    costs = [8.0, 1.0, 5.0, 4.0, 2.0]
    owned = [role.owned(costs) for role in roles("shared", 3)]
    assert sorted(i for indices in owned for i in indices) == [0, 1, 2, 3, 4]
    assert owned == [[0], [1, 2], [3, 4]]
    assert [role.owned([1.0]) for role in roles("shared", 3)] == [[0], [], []]


def test_a_worker_for_inverses_takes_all_in_turn():
    assert roles("dedicated_workers", 5)[-1].owned([1.0, 1.0]) == [0, 1]
    assert roles("dedicated_workers", 5)[0].owned([1.0, 1.0]) == []


def test_a_role_is_a_value():
    assert WorkerRole("shared", 2, 1) == WorkerRole("shared", 2, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        WorkerRole("shared", 2, 1).task_index = 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all", 2, 0), "strategy='all'. Accepted are 'chief_worker'"),
        (("shared", 0, 0), "num_workers=0. It must be a number of workers"),
        (("dedicated_workers", 2, 0), "num_workers=2. It needs at least 3 workers"),
        (("shared", 2, 2), "task_index=2 with num_workers=2. It must be an int from 0, the chief"),
        (("shared", 2, -1), "task_index=-1"),
        (("shared", 2, True), "task_index=True"),
    ],
)
def test_bad_roles(arguments, message):
    with pytest.raises(ValueError, match=message):
        WorkerRole(*arguments)
