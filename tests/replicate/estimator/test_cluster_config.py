import json

import pytest

from replicate.errors import ClusterConfigError
from replicate.estimator.cluster_config import (
    ClusterConfig,
    parse_cluster_config,
)

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "b:2"], "ps": ["c:1", "c:2"]}


def parse(cluster, task_type, index, **more):
    return parse_cluster_config(
        json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}, **more})
    )


@pytest.mark.parametrize(
    "text",
    [
        "  ",
        "{}",
        '{"cluster": {}, "task": {}}',
        '{"cluster": {}, "task": {"type": "worker", "index": 0}}',
        '{"task": {"type": "worker", "index": "0"}}',
        '{"task": {"type": "worker"}}',
        '{"task": {"index": 0}}',
    ],
)
def test_empty_tf_config_is_a_single_process(text):
    alone = parse_cluster_config(text)
    assert alone == ClusterConfig()
    assert (alone.task_type, alone.task_id, alone.is_chief) == ("worker", 0, True)
    assert (alone.master, alone.evaluation_master) == ("", "")
    assert (alone.num_ps_replicas, alone.num_worker_replicas) == (0, 1)
    assert alone.global_id_in_cluster == 0
    assert alone.cluster_spec.as_dict() == {}


@pytest.mark.parametrize(
    ("task_type", "index", "master", "is_chief", "number"),
    [
        ("chief", 0, "grpc://a:1", True, 0),
        ("worker", 0, "grpc://b:1", False, 1),
        ("worker", 1, "grpc://b:2", False, 2),
        ("ps", 0, "grpc://c:1", False, 3),
        ("ps", 1, "grpc://c:2", False, 4),
    ],
)
def test_task_of_a_cluster(task_type, index, master, is_chief, number):
    task = parse(CLUSTER, task_type, index)
    assert (task.task_type, task.task_id) == (task_type, index)
    assert (task.master, task.is_chief, task.global_id_in_cluster) == (master, is_chief, number)
    assert (task.num_ps_replicas, task.num_worker_replicas) == (2, 3)
    assert task.cluster_spec.as_dict() == CLUSTER


def test_spellings_of_a_cluster():
    by_text = parse(CLUSTER, "worker", " 1 ", service={"port": 3}, model_dir="/tmp/model")
    assert (by_text.task_id, by_text.service, by_text.model_dir) == (1, {"port": 3}, "/tmp/model")
    chief = {"chief": ["[::1]:80"]}
    assert parse(chief, "chief", 0).master == "", "a cluster of one needs no server"
    with_ps = {**chief, "ps": ["c:1"]}
    assert parse(with_ps, "chief", 0).master == "grpc://[::1]:80"
    assert parse({**with_ps, "worker": []}, "chief", 0) == parse(with_ps, "chief", 0)
    master = parse({"master": ["a:1"], "worker": ["b:1"]}, "master", 0)
    assert (master.is_chief, master.master, master.num_worker_replicas) == (True, "grpc://a:1", 2)
    beside = ClusterConfig({"chief": ("",), "worker": ("",)}, "worker", 0, target="grpc://a:1")
    assert (beside.master, beside.is_chief, beside.num_worker_replicas) == ("grpc://a:1", False, 2)


@pytest.mark.parametrize("listed", [{}, {"evaluator": ["e:1"]}])
def test_evaluator_is_not_part_of_the_cluster(listed):
    assert parse({**CLUSTER, **listed}, "worker", 1) == parse(CLUSTER, "worker", 1)
    task = parse({**CLUSTER, **listed}, "evaluator", 0)
    assert (task.task_type, task.is_chief, task.master) == ("evaluator", False, "")
    assert (task.num_ps_replicas, task.num_worker_replicas) == (0, 0)
    assert task.global_id_in_cluster is None
    assert task.cluster_spec.as_dict() == {}


MASTERS = {"session_master": "grpc://m:1", "eval_session_master": "grpc://m:2"}


def test_masters_of_a_single_process():
    alone = parse_cluster_config(json.dumps(MASTERS))
    assert (alone.master, alone.evaluation_master) == ("grpc://m:1", "grpc://m:2")
    assert (alone.is_chief, alone.num_worker_replicas, alone.jobs) == (True, 1, {})


@pytest.mark.parametrize(
    ("task_type", "masters"),
    [
        ("chief", ("grpc://m:1", "")),
        ("worker", ("grpc://m:1", "")),
        ("evaluator", ("", "grpc://m:2")),
    ],
)
def test_masters_in_a_cluster_are_those_of_tf_estimator(task_type, masters):
    task = parse(CLUSTER, task_type, 0, **MASTERS)
    assert (task.master, task.evaluation_master) == masters


def config(cluster=None, task=None, **more):
    return {
        "cluster": CLUSTER if cluster is None else cluster,
        "task": {"type": "chief", "index": 0} if task is None else task,
        **more,
    }


def task_of(task_type, index):
    return config(task={"type": task_type, "index": index})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "must be a JSON object, got"),
        (None, "must be a JSON object, got null"),
        ({"task": {"type": "chief", "index": 0}}, '"cluster" is missing'),
        ({"cluster": {}, "task": {"type": "worker", "index": 1}}, '"cluster" is missing or empty'),
        ({"cluster": CLUSTER}, '"task" is missing'),
        (config(cluster=["a:1"]), '"cluster" must be an object'),
        (config(task="chief"), '"task" must be an object'),
        (config(service=3), '"service" must be an object'),
        (config(model_dir=3), '"model_dir" must be a string, got 3'),
        (config(session_master=3), '"session_master" must be a string, got 3.* an address'),
        (config(task={"index": 0}), "the task type is null"),
        (task_of("boss", 0), 'the task type is "boss"'),
        (task_of(["chief"], 0), "the task type is"),
        (task_of("master", 0), "'master' is not in \"cluster\""),
        (task_of("worker", 2), "index 2 is out of range: 'worker' has 2 tasks"),
        (task_of("worker", -1), "index -1 is out of range"),
        (task_of("worker", "one"), 'the task index is "one".*whole number'),
        (task_of("worker", True), "the task index is true"),
        (config(task={"type": "chief"}), "the task index is null"),
        (config({"chief": ["a:1"], "worker": ["a:1"]}), 'chief 0 and worker 0 .* address "a:1"'),
        (config({"chief": ["a:1", "a:2"]}), '"chief" has 2 tasks'),
        (config({"chief": ["a:1"], "ps": ["A:01"]}), 'chief 0 and ps 0 .* address "A:01"'),
        (config({"chief": ["\ud800:1"]}), "chief 0 has the address"),
        (config({"chief": ["a\0:1"]}), "chief 0 has the address"),
        (config(model_dir="a\0"), '"model_dir" holds a character that no path .*, in "a.u0000"'),
        (config(session_master="\ud800"), '"session_master" holds a character'),
        (config({"x" * 5000: ["a:1"]}), '"cluster" holds a job "x{79}\\.\\.\\.\\. '),
        (task_of("worker", "9" * 4300), "the task index 9{80}\\.\\.\\. is out of range"),
        (task_of("evaluator", -2), "index -2 is out of range. Correct it: use 0 or more"),
        (config({"chief": ["a:1"], "master": ["a:2"]}), 'both "chief" and "master"'),
        (config({"worker": ["a:1"]}), 'has no "chief", only'),
        (config({**CLUSTER, "evaluator": ["d"]}), 'evaluator 0 has the address "d"'),
        (
            config({"master": ["a:1"]}, {"type": "evaluator", "index": 0}),
            '"evaluator" beside a "master"',
        ),
        (config({**CLUSTER, "tpu": ["d:1"]}), 'holds a job "tpu"'),
        (config({"chief": ["localhost"]}), 'chief 0 has the address "localhost"'),
        (config({"chief": ["a:0"]}), "a port from 1 to 65535"),
        (config({"chief": ["a:65536"]}), "a port from 1 to 65535"),
        (config({"chief": ["grpc://a:1"]}), "chief 0 has the address"),
        (config({"chief": [7]}), "chief 0 has the address 7"),
        (config({"chief": "a:1"}), 'job "chief" must be a list of addresses'),
    ],
)
def test_mistake_is_named_with_a_correct_example(value, message):
    with pytest.raises(ClusterConfigError, match=message) as caught:
        parse_cluster_config(json.dumps(value))
    assert str(caught.value).startswith("Cannot read the cluster from TF_CONFIG: ")
    assert parse_cluster_config(str(caught.value).partition("for example: ")[2]).num_ps_replicas


@pytest.mark.parametrize("text", ["{bad", "[" * 100_000, '{"a": 1}}'])
def test_error_shows_text_that_is_not_json(text):
    with pytest.raises(ClusterConfigError, match="TF_CONFIG: it is not JSON"):
        parse_cluster_config(text)
