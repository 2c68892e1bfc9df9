"""RunConfig and TPUConfig of a TPUEstimator, and TPUClusterResolver without a TPU."""

import json

import pytest
import tensorflow as tf

import replicate
from replicate import tpu
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1
MASTER = "grpc://10.0.0.1:8470"


def test_config_has_the_settings_of_both():
    settings = tpu.TPUConfig(100, 8, 2, False, "job", 5, [[1, 2]])
    assert settings == (100, 8, 2, 1, "job", 5, [[1, 2]], 2, 1, False, None)
    config = tpu.RunConfig(
        settings, model_dir="/m", save_checkpoints_steps=7, keep_checkpoint_max=2
    )
    assert isinstance(config, replicate.RunConfig)
    assert config.tpu_config is settings
    assert (config.model_dir, config.save_checkpoints_steps) == ("/m", 7)
    assert config.as_dict()["tpu_config"] is settings
    assert "iterations_per_loop=100" in repr(config)
    assert tpu.RunConfig().tpu_config == tpu.TPUConfig()


def test_replace_keeps_and_changes_the_tpu_config():
    first, second = tpu.TPUConfig(3), tpu.TPUConfig(5)
    config = tpu.RunConfig(tpu_config=first, tf_random_seed=4)
    assert config.replace(model_dir="/m").tpu_config is first
    changed = config.replace(tpu_config=second, model_dir="/m")
    assert (changed.tpu_config, changed.tf_random_seed, changed.model_dir) == (second, 4, "/m")
    assert config.tpu_config is first
    assert config != changed
    assert config == tpu.RunConfig(tpu_config=first, tf_random_seed=4)
    assert config.replace(cluster=tpu.TPUClusterResolver("a-tpu")) == config
    with pytest.raises(ValueError, match=r"Cannot replace \['nonsense'\]"):
        config.replace(nonsense=3)


@pytest.mark.parametrize(
    ("master", "evaluation", "expected"),
    [
        ("", "local", ("", "")),
        (None, None, ("", "")),
        (MASTER, None, (MASTER, MASTER)),
        (MASTER, "", (MASTER, "")),
        (MASTER, "grpc://10.0.0.2:1", (MASTER, "grpc://10.0.0.2:1")),
        (None, MASTER, ("", MASTER)),
    ],
)
def test_master_runs_evaluations_too_unless_another_is_given(master, evaluation, expected):
    config = tpu.RunConfig(master=master, evaluation_master=evaluation)
    assert (config.master, config.evaluation_master) == expected


def test_masters_in_a_cluster(monkeypatch):
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}

    def config(task, master):
        environment = {"cluster": cluster, "task": {"type": task, "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(environment))
        return tpu.RunConfig(master=master)

    assert config("worker", "").master == "grpc://127.0.0.1:2"
    assert config("worker", "").num_worker_replicas == 2
    assert config("worker", MASTER).master == MASTER
    assert config("evaluator", MASTER).evaluation_master == ""


def test_a_cluster_config_is_used_and_the_resolver_of_a_tpu_is_not():
    for name in ("local", "my-tpu"):
        assert tpu.RunConfig(cluster=tpu.TPUClusterResolver(name)) == tpu.RunConfig()
    cluster = ClusterConfig({"chief": ("a:1",), "worker": ("b:1",)}, "worker")
    assert tpu.RunConfig(cluster=cluster).cluster == cluster
    found = tpu.RunConfig(cluster=cluster, evaluation_master="x").cluster_spec
    assert found == cluster.cluster_spec


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"master": "", "cluster": ClusterConfig()}, ValueError, r"both master='' and cluster="),
        ({"master": 3}, TypeError, r"master must be the address of a server, .*got 3\."),
        ({"evaluation_master": 3}, TypeError, r"evaluation_master must be the address .*got 3\."),
        ({"cluster": 3}, TypeError, r"cluster must be a replicate\.tpu\.TPUClusterR.*got 3\."),
        ({"tpu_config": 3}, TypeError, r"tpu_config must be a replicate\.tpu\.TPUConfig, got 3\."),
        ({"train_distribute": 3}, ValueError, r"train_distribute must be a MirroredStrategy"),
        ({"iterations_per_loop": 0}, ValueError,
         r"iterations_per_loop must be a whole num.*got 0\."),
        ({"iterations_per_loop": "2d"}, ValueError, r"iterations_per_loop must .*, got '2d'\."),
        ({"iterations_per_loop": True}, ValueError, r"iterations_per_loop must .*, got True\."),
        ({"num_shards": 0}, ValueError, r"num_shards must be a whole number >= 1 or None, got 0\."),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(settings, error, text):
    kind = tpu.TPUConfig if {*settings} & {*tpu.TPUConfig._fields} else tpu.RunConfig
    with pytest.raises(error, match=f"^{kind.__name__}: {text}"):
        kind(**settings)


def test_a_bfloat16_scope_makes_variables_of_float32(graph):
    with tpu.bfloat16_scope():
        weights = v1.get_variable("weights", [2], tf.bfloat16)
    assert weights.dtype.base_dtype == tf.bfloat16
    (made,) = v1.trainable_variables()
    assert made.dtype.base_dtype == tf.float32


@pytest.mark.parametrize("name", [None, "", "local", [], b"local"])
def test_without_a_name_it_stands_for_this_process(name):
    resolver = tpu.TPUClusterResolver(name, "zone", "project", "worker", credentials=None)
    assert isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver)
    assert resolver.master() == resolver.get_master() == ""
    assert resolver.master("worker", 0, rpc_layer="grpc") == ""
    assert not resolver.cluster_spec().jobs
    assert resolver.get_job_name() is None
    assert tpu.TPUClusterResolver(tpu_names=["a"]).master() == "", "the old name of its argument"


@pytest.mark.parametrize("name", [["my-tpu"], b"my-tpu", "grpc://10.0.0.1:8470", None])
def test_a_named_tpu_and_any_hardware_are_missing_when_they_are_needed(name):
    resolver = tpu.TPUClusterResolver(name)
    methods = [resolver.num_accelerators, resolver.get_tpu_system_metadata]
    if name is not None:
        methods += [resolver.master, resolver.get_master, resolver.cluster_spec]
        methods.append(resolver.get_job_name)
    for method in methods:
        with pytest.raises(
            ValueError, match=r"^TPUClusterResolver\(.*\) was asked for its .*use_tpu=F"
        ):
            method()
