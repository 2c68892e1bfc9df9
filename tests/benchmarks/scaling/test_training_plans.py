import math

import pytest

import kfac
from benchmarks.scaling import training_plans
from benchmarks.scaling.training_plans import PLANS, Constants, Costs, Hosts, Training

NOTHING = Costs(0.0, 0.0, 0.0)
P, F = 1000.0, 300.0
PLAIN = Training(parameters=P, tensors=2, computing=0.5, interval=10)
WITH_KFAC = PLAIN._replace(factors=F, statistics=0.2, inversion=1.0, preconditioning=0.1)
MEASURED = Constants(
    exchange=Costs(0.03, 0.01, 2e-4),
    worker=Costs(0.01, 0.004, 1e-4),
    server=Costs(0.01, 0.006, 1e-4),
    merge=Costs(0.05, 0.02, 1e-5),
    merge_cpu=Costs(0.03, 0.02, 1e-5),
    cores=2,
)


@pytest.mark.parametrize(
    ("mode", "servers", "chief", "worker"),
    [
        ("all_reduce", (0, 0), (2 * P * 4 / 5, 2 * P * 4 / 5), (2 * P * 4 / 5, 2 * P * 4 / 5)),
        ("asynchronous", (5 * P, 5 * P), (P, P), (P, P)),
        ("synchronous", (5 * P, 5 * P), (P, P), (P, P)),
        ("averaging", (5 * P, 5 * P), (P, P), (P, P)),
        (
            "shared",
            (6 * P + F + F / 10, 6 * P + 5 * F + F / 10),
            (2 * P + F + F / 50, 2 * P + F + F / 50),
            (P + F / 50, P + F + F / 50),
        ),
        (
            "chief_worker",
            (6 * P + F + F / 10, 6 * P + F + F / 10),
            (2 * P + F + F / 10, 2 * P + F + F / 10),
            (P, P),
        ),
        (
            "dedicated_workers",
            (3 * P + P + F + P + F, 3 * P + F + F + P),
            (2 * P + F, 2 * P),
            (P, P),
        ),
    ],
)
def test_bytes_of_five_workers(mode, servers, chief, worker):
    links = training_plans.links(PLANS[mode](WITH_KFAC, 5))
    assert (links["from servers"], links["to servers"]) == pytest.approx(servers)
    assert (links["to chief"], links["from chief"]) == pytest.approx(chief)
    assert (links["to worker"], links["from worker"]) == pytest.approx(worker)


def test_dedicated_workers_match_kfac_roles():
    for workers in range(3, 41):
        roles = [kfac.WorkerRole("dedicated_workers", workers, index) for index in range(workers)]
        plan = training_plans.dedicated_workers(WITH_KFAC, workers)
        counts = [
            sum(role.computes_gradients for role in roles),
            sum(role.adds_statistics and not role.computes_inverses for role in roles),
            sum(role.computes_inverses for role in roles),
        ]
        trains = [role.number for role in plan.roles[:2]]
        aside = [role.number for role in plan.roles[2:]]
        assert [sum(trains), *aside] == [count for count in counts if count]
        assert trains[0] == 1
    with pytest.raises(ValueError, match="workers=2"):
        training_plans.dedicated_workers(WITH_KFAC, 2)


def test_one_worker_on_one_machine():
    exchange = 0.03 + 2 * (2 * 0.01 + P * 2e-4)
    plan = training_plans.asynchronous(PLAIN, 1)
    assert training_plans.seconds_per_step(plan, MEASURED) == pytest.approx(0.5 + exchange)
    merge = 0.05 + 2 * 0.02 + P * 1e-5
    plan = training_plans.synchronous(PLAIN, 1)
    assert training_plans.seconds_per_step(plan, MEASURED) == pytest.approx(0.5 + exchange + merge)
    plan = training_plans.averaging(PLAIN, 1)
    empty = 9 * (0.03 + 4 * 0.01)
    expected = (10 * 0.5 + empty + exchange + merge) / 10
    assert training_plans.seconds_per_step(plan, MEASURED) == pytest.approx(expected)
    # Computing limits one machine.
    plan = training_plans.asynchronous(PLAIN, 8)
    constants = Constants(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, cores=2)
    assert training_plans.seconds_per_step(plan, constants) == pytest.approx(8 * 0.5 / 2)


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("servers", [1, 4])
def test_servers_limit_many_workers(mode, servers):
    """By their links, or by their cores."""
    plan = PLANS[mode](PLAIN, 200)
    hosts = Hosts(servers, cores=math.inf, bandwidth=100.0)
    found = training_plans.seconds_per_step(plan, MEASURED, hosts)
    ways = 1 if mode == "asynchronous" else 2
    assert found == pytest.approx(ways * 200 * P / (servers * 100.0), rel=0.1 / ways)
    if mode == "asynchronous":
        hosts = Hosts(servers, cores=2, bandwidth=1e9)
        each = 0.01 + 2 * (2 * 0.006 + P * 1e-4) / servers
        found = training_plans.seconds_per_step(plan, MEASURED, hosts)
        assert found == pytest.approx(200 * each / 2, rel=0.05)


def test_mean_of_more_gradients_takes_more_cpu():
    gradient = 2 * 0.02 + P * 1e-5
    for workers in (1, 3):
        plain, mean = (
            training_plans.cpu_seconds_per_step(PLANS[mode](PLAIN, workers), MEASURED)
            for mode in ("asynchronous", "synchronous")
        )
        assert mean - plain == pytest.approx(0.03 + workers * gradient)


@pytest.mark.parametrize("mode", ["averaging", "shared", "chief_worker", "dedicated_workers"])
def test_small_work_costs_chief_and_others(mode):
    small = WITH_KFAC._replace(small=3.0, chief_cpu=5.0, other_cpu=2.0)

    def cpu(training):
        return training_plans.cpu_seconds_per_step(PLANS[mode](training, 4), MEASURED)

    assert cpu(small) - cpu(WITH_KFAC) == pytest.approx(5 + 3 * 2)
    plans = [PLANS[mode](training, 4) for training in (WITH_KFAC, small)]
    alone = MEASURED._replace(cores=100)
    before, after = (training_plans.seconds_per_step(plan, alone) for plan in plans)
    assert after - before >= 2.99


def test_towers_sum_gradients():
    assert training_plans.towers(PLAIN, 4, 1e4) == pytest.approx(0.5 + 3 * P / 1e4)
    assert training_plans.towers(PLAIN, 1, 1e4) == 0.5


def test_all_reduce_goes_round_a_ring():
    """2(n - 1) messages for each pack and for two small sums; 2P(n - 1)/n bytes on each link."""
    constants = MEASURED._replace(ring=Costs(0.01, 0.002, 1e-5), ring_cpu=Costs(0.01, 0.001, 1e-5))
    packed = PLAIN._replace(pack=P / 3)
    plan = PLANS["all_reduce"](packed, 5)
    sent, hops = 2 * P * 4 / 5, 2 * 4 * (3 + 2)
    apart = training_plans.seconds_per_step(plan, constants, Hosts(bandwidth=1e4, latency=0.004))
    assert apart == pytest.approx(0.5 + 0.01 + hops * (0.002 + 0.002) + sent * 1e-4)
    together = training_plans.seconds_per_step(plan, constants)
    own = 0.01 + hops * 0.002 + sent * 1e-5
    cpu = 0.01 + hops * 0.001 + sent * 1e-5
    assert together == pytest.approx(0.5 * 5 / 2 + max(own, cpu * 5 / 2))
    assert training_plans.seconds_per_step(PLANS["all_reduce"](packed, 1), constants) == 0.5
