import json
import socket

import pytest

from replicate.estimator.cluster_config import parse_cluster_config
from replicate.launch.plan import cluster_plan, free_ports


@pytest.mark.parametrize(
    ("arguments", "tasks"),
    [
        ({"workers": 1, "ps": 0}, ["chief 0"]),
        ({"workers": 2, "ps": 1}, ["chief 0", "worker 0", "ps 0"]),
        (
            {"workers": 2, "ps": 2, "chief": True, "evaluator": True},
            ["chief 0", "worker 0", "worker 1", "ps 0", "ps 1", "evaluator 0"],
        ),
    ],
)
def test_cluster_plan_lists_the_requested_tasks(arguments, tasks):
    assert [str(task) for task in cluster_plan(**arguments).tasks] == tasks


def test_every_tf_config_describes_the_same_cluster():
    plan = cluster_plan(3, 2, evaluator=True)
    configs = [parse_cluster_config(plan.tf_config(task)) for task in plan.tasks]
    assert [(c.task_type, c.task_id) for c in configs] == [(t.job, t.index) for t in plan.tasks]
    assert len({json.dumps(config.jobs) for config in configs}) == 1
    addresses = [task.address for task in plan.tasks if task.address]
    assert len(set(addresses)) == len(addresses) == 5
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert sum(config.is_chief for config in configs) == 1


def test_an_ipv6_address_is_in_brackets():
    (task,) = cluster_plan(1, 0, host="::1").tasks
    assert task.address.startswith("[::1]:")


@pytest.mark.parametrize(("workers", "ps"), [(0, 1), (-1, 1), (1, -1)])
def test_invalid_task_counts_are_refused(workers, ps):
    with pytest.raises(ValueError, match=f"{workers} workers and {ps} parameter servers"):
        cluster_plan(workers, ps)


def test_ports_are_free_and_different(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("replicate.launch.plan._PORTS", range(port, port + 1))
        with pytest.raises(OSError, match="only 0 of the 1 ports are free"):
            free_ports(1)
    monkeypatch.undo()
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as server:
            server.bind(("", port))
