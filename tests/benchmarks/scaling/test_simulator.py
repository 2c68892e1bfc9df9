"""Simulated clusters against numbers computed by hand."""

import dataclasses

import pytest

from benchmarks.scaling import foretold
from benchmarks.scaling.chains import SHAPES
from benchmarks.scaling.simulator import Cost, Job, Link, round_bytes, round_seconds, simulate

SITES = Job(4, 1e6, 1.0, Link(1e6, 0.05))
"""A worker sends 2 * 3/4 * 4 MB in 6 s, and a message waits 6 times, 0.3 s; so does a report."""


@pytest.mark.parametrize(
    ("changes", "seconds", "sent"),
    [
        ({}, 20 * 7.3, 6e6),
        ({"every": 5}, 20 + 4 * 6.6, 6e6 / 5),
        ({"every": 8}, 20 + 3 * 6.6, 6e6 * 3 / 20),  # the last round is after 4 steps
        ({"every": 10, "bits": 4}, 20 + 2 * (0.6 + 6 * 33 / 256), 6e5 * 33 / 256),
        ({"every": 10, "fragments": 5, "delay": 2}, 20 + 10 * 0.3 + 5 * 1.5, 1.2e6 * 14 / 20),
        (
            {"every": 10, "fragments": 5, "delay": 1},
            20 + 10 * 0.3 + 5 * 1.5 + 9 * 0.5,
            1.2e6 * 14 / 20,
        ),
        ({"workers": 1}, 20, 0),
        ({"every": 20, "cores": 2, "link": Link(1e6)}, 20 * 2 + 6, 6e6 / 20),
        ({"every": 20, "cost": Cost(1, 0.5, 1e-7, 9)}, 20 + 1 + 12 * 0.5 + 6.6, 6e6 / 20),
        ({"every": 20, "cost": Cost(message=1), "pack": 1e6}, 20 + 6 * 5 + 6.6, 6e6 / 20),
    ],
)
def test_time_and_bytes_are_those_of_the_formulas(changes, seconds, sent):
    found = simulate(dataclasses.replace(SITES, **changes), 20)
    assert found.seconds == pytest.approx(seconds)
    assert found.sent == pytest.approx(sent)
    if "cores" not in changes:
        assert found.utilization == pytest.approx(20 / seconds)


def test_bytes_of_a_round_are_those_of_the_guide():
    every_step = 100 * round_bytes(Job(8, 1e6, 1.0))
    ratios = [every_step / round_bytes(Job(8, 1e6, 1.0, bits=bits)) for bits in (32, 16, 8, 4)]
    assert ratios == pytest.approx([100, 200, 394, 776], rel=1e-3)


def test_rounds_wait_less_for_slow_steps():
    job = Job(16, 1.0, 1.0, slow=(0.1, 3.0))
    in_every_step = simulate(job, 2000).seconds / 2000
    assert in_every_step == pytest.approx(1 + 2 * (1 - 0.9**16), rel=0.02)
    in_rounds = simulate(dataclasses.replace(job, every=100), 2000).seconds / 2000
    assert 1.2 < in_rounds < 0.6 * in_every_step  # the mean of a worker is 1.2


def test_failures_cost_a_restart_or_a_notice():
    certain = Job(2, 1.0, 1.0, lifetime=1e-9, restart=9.0, save=0.0)
    assert simulate(certain, 10).seconds == pytest.approx(10 * (1 + 9))
    assert simulate(dataclasses.replace(certain, notice=3.0), 10).seconds == pytest.approx(100)
    with pytest.raises(ValueError, match="makes no progress"):
        simulate(dataclasses.replace(certain, save=10.0), 10)
    rare = Job(64, 1.0, 1.0, lifetime=64e3, restart=600.0, save=600.0)
    restarting = simulate(rare, 3000, seed=1).utilization
    going_on = simulate(dataclasses.replace(rare, notice=10.0), 3000, seed=1)
    assert going_on.utilization == pytest.approx(1 - 0.01 - 600 / 64e3, abs=0.01)
    assert restarting == pytest.approx(1 / (1 + 0.9), abs=0.1)  # 600 s and half of 600 s each


def test_fragments_must_divide_the_steps():
    with pytest.raises(ValueError, match="3 fragments do not divide 10 steps"):
        simulate(dataclasses.replace(SITES, every=10, fragments=3), 10)


def test_needed_link_gives_the_utilization():
    way = foretold.Way(100, 8)
    megabits = foretold.megabits_for(0.83, 14, 1e10, way)
    job = foretold.job(way, 14, 1e10, link=Link(megabits * 1.25e5))
    assert simulate(job, 100).utilization == pytest.approx(0.83)
    assert round_seconds(job) == pytest.approx(2280 * 17 / 83)


def test_measured_steps_stand_beside_foretold_ones():
    records = [[mode, *SHAPES[1], n, [0.01]] for mode, n in (("all_reduce", 1), ("rounds", 2))]
    *_, alone, rounds = foretold.compared(records, megabits=100)
    assert " ".join(alone.split()) == "| all_reduce | 1 | 10.0 | 10.0 | 1.00 |"
    seconds = 4 * 2**20 / 6.25e6  # 4 MB to the other, at half of 100 Mbit/s
    assert float(rounds.split("|")[4]) == pytest.approx(10 + 100 * seconds, abs=2)
