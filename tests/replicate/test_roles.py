"""The role of a process, from TF_CONFIG and from the launcher's plan."""

import json

import pytest

from replicate.estimator.cluster_config import ClusterConfig, parse_cluster_config
from replicate.launch.plan import cluster_plan
from replicate.roles import ALONE, ROLES, Role

CLUSTER = {"worker": ["a:2"], "ps": ["a:3"]}


def role(task_type, **chief):
    return parse_cluster_config(
        json.dumps({"cluster": {**CLUSTER, **chief}, "task": {"type": task_type, "index": 0}})
    ).role


@pytest.mark.parametrize(
    ("task_type", "expected"),
    [
        ("chief", Role(trains=True, saves=True)),
        ("worker", Role(trains=True)),
        ("ps", Role(keeps_variables=True)),
        ("evaluator", Role(evaluates=True)),
    ],
)
def test_role_of_a_task_in_a_cluster(task_type, expected):
    assert role(task_type, chief=["a:1"]) == expected


def test_master_evaluates_as_well():
    assert role("master", master=["a:1"]) == Role(trains=True, saves=True, evaluates=True)


@pytest.mark.parametrize("tf_config", ["", "{}", '{"task": {"type": "worker", "index": 0}}'])
def test_process_without_a_cluster_does_everything(tf_config):
    config = parse_cluster_config(tf_config)
    assert config.role == ALONE
    assert config.is_chief


def test_a_program_may_have_its_own_name_for_workers():
    config = ClusterConfig({"chief": ("a:1",), "trainer": ("a:2",)}, "trainer")
    assert config.role == ROLES["worker"]


def test_launcher_and_its_tasks_agree_on_the_roles():
    plan = cluster_plan(2, 1, chief=True, evaluator=True)
    for task in plan.tasks:
        assert parse_cluster_config(plan.tf_config(task)).role == task.role
    assert {task.job for task in plan.tasks} == set(ROLES) - {"master"}
    assert [str(task) for task in plan.tasks if task.role.saves] == ["chief 0"]
