"""Settings of all-reduce, and the RunConfig that holds them."""

import copy
import json

import pytest
import tensorflow as tf

import replicate
from replicate.estimator.cluster_config import ClusterConfig

SGD = tf.compat.v1.train.GradientDescentOptimizer(1.0)
JOBS = {"chief": ("localhost:1",), "worker": ("localhost:2", "localhost:3")}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"communication": "mpi"}, r"communication must be one of \['auto', .* got 'mpi'"),
        ({"pack_bytes": 0}, "pack_bytes must be a whole number ≥ 1, or None not to pack; got 0"),
        ({"timeout_secs": float("inf")}, "timeout_secs must be a finite number > 0, got inf"),
        ({"check_every": -1}, "check_every must be a whole number ≥ 0, got -1"),
        ({"every": 0}, "every must be a whole number ≥ 1, or None .* step; got 0"),
        ({"every": 2, "evaluates": True}, "workers that meet every 2 steps cannot evaluate"),
        ({"every": 2, "bits": 2}, "bits must be 32, 16, 8 or 4, got 2"),
        ({"bits": 8}, "bits=8 needs every=…"),
        ({"outer_optimizer": bool}, r"outer_optimizer=<class 'bool'> needs every=…"),
        ({"fragments": 2}, "fragments must be a whole number from 1 to every=None.* got 2"),
        ({"every": 2, "fragments": 3}, "fragments must be .* from 1 to every=2.* got 3"),
        ({"delay": 1}, "delay must be a whole number ≥ 0 and below every=None.* got 1"),
        ({"every": 2, "delay": 2}, "delay must be .* below every=2.* got 2"),
        ({"every": 2, "delay": 1, "mixing": 1}, "mixing must be .* below 1, got 1"),
        ({"every": 2, "fragments": 2, "outer_optimizer": SGD}, "with fragments=2, .* a function"),
    ],
)
def test_a_wrong_setting_is_named(settings, text):
    with pytest.raises(ValueError, match=f"AllReduce: {text}"):
        replicate.AllReduce(**settings)


def test_an_outer_optimizer_is_refused_or_kept():
    with pytest.raises(TypeError, match=r"outer_optimizer must be a tf\.compat.* got 0\.7"):
        replicate.AllReduce(every=2, outer_optimizer=0.7)
    settings = replicate.AllReduce(every=2, outer_optimizer=bool)
    assert copy.deepcopy(settings) is settings, "its optimizer may belong to a graph"
    assert "outer" not in repr(settings), "workers compare it, and functions have addresses"


def test_a_process_sums_with_others_only_where_there_are_some():
    settings = replicate.AllReduce()

    def of(**role):
        return replicate.RunConfig(
            train_distribute=settings, cluster=ClusterConfig(**role)
        ).all_reduce

    assert of(jobs=JOBS, task_type="worker", task_id=1) == settings
    assert of(jobs=JOBS, task_type="chief") == settings
    assert of(jobs=JOBS, task_type="evaluator") is None
    assert of(jobs={"chief": ("localhost:1",)}, task_type="chief") is None
    assert of() is None


def test_parameter_servers_are_refused():
    cluster = ClusterConfig({**JOBS, "ps": ("localhost:4",)}, "worker", 0)
    with pytest.raises(ValueError, match=r"needs a cluster without parameter servers, and .* 1\."):
        replicate.RunConfig(train_distribute=replicate.AllReduce(), cluster=cluster)


def test_the_first_of_workers_without_a_chief_is_the_chief(monkeypatch):
    def role_of(index):
        task = {"type": "worker", "index": index}
        cluster = {"worker": ["localhost:1", "localhost:2", "localhost:3"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        config = replicate.RunConfig(train_distribute=replicate.AllReduce())
        assert config.cluster.jobs == JOBS
        return config.task_type, config.task_id

    assert [role_of(index) for index in range(3)] == [("chief", 0), ("worker", 0), ("worker", 1)]
    with pytest.raises(replicate.ClusterConfigError, match='"cluster" has no "chief"'):
        replicate.RunConfig()
