"""Role, devices and servers of a process, by flags and TF_CONFIG."""

import json
from unittest import mock

import pytest
import tensorflow as tf

import replicate
from examples.slim.image_classifier import cluster

v1 = tf.compat.v1
HOSTS = {"worker_hosts": ["a:1", "b:1", "c:1"], "ps_hosts": ["d:1", "e:1"]}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def config(**flags):
    defaults = {
        "master": "",
        "task": 0,
        "worker_replicas": 1,
        "num_ps_tasks": 0,
        "worker_hosts": None,
        "ps_hosts": None,
        "job_name": "worker",
    }
    return cluster.run_config(cluster.ClusterFlags(**{**defaults, **flags}), tf_random_seed=7)


def test_alone():
    found = config()
    assert (found.master, found.is_chief, found.tf_random_seed) == ("", True, 7)
    assert cluster.describe(found) == "alone"
    where = cluster.deployment(found, 2, False)
    assert (where.num_clones, where.num_replicas, where.num_ps_tasks) == (2, 1, 0)
    assert where.clone_on_cpu, "there is no GPU here"
    assert cluster.describe_devices(where) == (
        "2 clones: /device:CPU:0 /device:CPU:0   variables on /device:CPU:0"
    )


def test_hosts():
    jobs = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}
    for job, task, role in (
        ("worker", 0, ("chief", 0, 0)),
        ("worker", 2, ("worker", 1, 2)),
        ("ps", 1, ("ps", 1, 4)),
    ):
        found = config(**HOSTS, job_name=job, task=task)
        assert (found.task_type, found.task_id, found.global_id_in_cluster) == role
        assert found.cluster_spec.as_dict() == jobs
    where = cluster.deployment(config(**HOSTS, task=2), 1, True)
    assert (where.replica_id, where.num_replicas, where.num_ps_tasks) == (2, 3, 2)
    assert where.clone_device(0) == "/job:worker/device:CPU:0"
    assert cluster.deployment(config(**HOSTS), 1, True).worker_device == "/job:chief"


def test_tf_config(monkeypatch):
    task = {"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    found = config(num_ps_tasks=1)
    assert (found.num_ps_replicas, found.is_chief) == (1, True)
    with pytest.raises(ValueError, match="num_ps_tasks=2, but the cluster of this process has 1"):
        config(num_ps_tasks=2)
    with pytest.raises(ValueError, match="by --master and TF_CONFIG; keep one"):
        config(master="grpc://a:1")
    task["task"]["type"] = "evaluator"
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    with pytest.raises(ValueError, match="this process is 'evaluator', which the training program"):
        config()
    assert cluster.alone(model_dir="x").cluster_spec.as_dict() == {}


def test_running_server_has_the_session(tmp_path):
    server = v1.train.Server.create_local_server()
    beside = config(master="grpc://a:1", task=1, worker_replicas=2, num_ps_tasks=3)
    assert (beside.master, beside.is_chief) == ("grpc://a:1", False)
    assert (beside.num_worker_replicas, beside.num_ps_replicas) == (2, 3)
    assert list(beside.session_config.device_filters) == ["/job:ps", "/job:worker/task:1"]
    where = cluster.deployment(beside, 2, False)
    assert (where.replica_id, where.clone_device(1)) == (1, "/job:worker/device:GPU:1")

    found = config(master=server.target).replace(model_dir=str(tmp_path), progress="off")
    assert found.is_chief

    def model_fn(features):
        weight = v1.get_variable("w", [])
        loss = tf.square(weight - features[0])
        step = v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec("train", loss=loss, train_op=step)

    estimator = replicate.Estimator(model_fn, config=found)
    cluster.train(estimator, lambda: tf.constant([3.0]), 2)
    assert estimator.get_variable_value("w") == pytest.approx(3)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"worker_replicas": 2}, "worker_replicas=2, but the cluster of this process has 1"),
        ({"master": "grpc://a:1", "task": 1}, "task=1, but there are 1 workers"),
        ({"worker_hosts": ["a:1", "b:1"]}, "got a:1,b:1 and no parameter servers"),
        ({"ps_hosts": ["a:1"]}, "got no workers and a:1"),
        (
            {**HOSTS, "worker_replicas": 2},
            "worker_replicas=2, but the cluster of this process has 3",
        ),
        ({**HOSTS, "task": 3}, "task=3, but --worker_hosts has 3 addresses"),
        ({**HOSTS, "task": 2, "job_name": "ps"}, "task=2, but --ps_hosts has 2 addresses"),
        ({**HOSTS, "ps_hosts": ["x"]}, "ps 0 has the address"),
        ({**HOSTS, "master": "grpc://a:1"}, "by --master and --worker_hosts and --ps_hosts"),
    ],
)
def test_wrong_flags(flags, message):
    with pytest.raises(ValueError, match=message):
        config(**flags)


def test_what_a_cluster_or_machine_cannot_do_is_refused(monkeypatch):
    beside = config(master="grpc://a:1", worker_replicas=2)
    with pytest.raises(ValueError, match="2 replicas"):
        cluster.deployment(beside, 1, True)
    in_memory = mock.Mock(runs_python=True)
    cluster.check_dataset(config(), in_memory)
    with pytest.raises(ValueError, match=r"master=grpc://a:1 cannot read .*, which is in the mem"):
        cluster.check_dataset(beside, in_memory)
    monkeypatch.setattr(cluster.model_deploy, "local_devices", lambda kind: ["/device:GPU:0"])
    with pytest.raises(ValueError, match="num_clones=2, but this process has 1 GPUs"):
        cluster.deployment(config(), 2, False)
    assert cluster.deployment(config(), 2, True).clone_on_cpu
    assert not cluster.deployment(config(), 1, False).clone_on_cpu
