import itertools

import pytest

from benchmarks.scaling.simulator import Phase, Process, seconds_per_round


def cores(seconds, demand=None):
    return Phase(seconds, {"cores": seconds if demand is None else demand})


@pytest.mark.parametrize(
    ("number", "available", "expected"), [(1, 1, 3), (2, 2, 3), (2, 1, 6), (3, 2, 4.5), (8, 2, 12)]
)
def test_cores_are_shared(number, available, expected):
    found = seconds_per_round([Process([cores(1), cores(2)], number)], {"cores": available})
    assert found == pytest.approx(expected)


def test_partly_idle_phases_overlap():
    half = Process([cores(4, demand=2)], 2)
    assert seconds_per_round([half], {"cores": 1}) == pytest.approx(4)
    third = Process([cores(4, demand=2)], 3)
    assert seconds_per_round([third], {"cores": 1}) == pytest.approx(6)


@pytest.mark.parametrize(("number", "expected"), [(1, 1.5), (10, 5.0), (100, 50.0)])
def test_busy_server_limits_rounds(number, expected):
    phases = [Phase(1.0, {}), Phase(0.5, {"server": 0.5})]
    found = seconds_per_round([Process(phases, number)], {"server": 1.0})
    assert found == pytest.approx(expected, rel=0.02)


def test_both_directions_of_a_link_overlap():
    phases = [Phase(1.0, {"down": 1.0}), Phase(1.0, {"up": 1.0})]
    found = seconds_per_round([Process(phases, 50)], {"down": 1.0, "up": 1.0})
    assert found == pytest.approx(50, rel=0.1)


def test_waiting_processes_wait_for_the_slowest_and_the_closing():
    quick, slow = Process([Phase(1.0, {})], 3, True), Process([Phase(4.0, {})], 1, True)
    assert seconds_per_round([quick, slow], {}, [Phase(2.0, {}), Phase(0.5, {})]) == 6.5
    assert seconds_per_round([quick, slow], {}) == 4


def test_waiting_processes_share_cores_with_others():
    trains, beside = Process([cores(1)], 1, True), Process([cores(5)], 1)
    assert seconds_per_round([trains, beside], {"cores": 2}, [cores(1)]) == pytest.approx(2)
    assert seconds_per_round([trains, beside], {"cores": 1}, [cores(1)]) == pytest.approx(4)
    assert seconds_per_round([beside, trains], {"cores": 2}, [cores(1)]) == pytest.approx(5)


def test_rounds_grow_with_processes_and_shrink_with_cores():
    phases = [cores(1), Phase(0.3, {"cores": 0.1, "server": 0.2}), Phase(0.5, {})]
    for waits in (False, True):
        times = [
            seconds_per_round([Process(phases, n, waits)], {"cores": 2, "server": 1})
            for n in (1, 2, 3, 5, 9, 20)
        ]
        assert all(b >= a * 0.999 for a, b in itertools.pairwise(times))
        times = [
            seconds_per_round([Process(phases, 9, waits)], {"cores": n, "server": 1})
            for n in (1, 2, 3, 5, 9, 20)
        ]
        assert all(b <= a * 1.001 for a, b in itertools.pairwise(times))


def test_empty_phases_are_skipped():
    assert seconds_per_round([Process([Phase(0.0, {}), Phase(2.0, {})])], {}) == 2


def test_refuses_empty_rounds_and_unknown_resources():
    with pytest.raises(ValueError, match="take no time"):
        seconds_per_round([Process([Phase(0.0, {})])], {})
    with pytest.raises(ValueError, match="ask for disk, but capacities has cores"):
        seconds_per_round([Process([Phase(1.0, {"disk": 1.0})])], {"cores": 1})
