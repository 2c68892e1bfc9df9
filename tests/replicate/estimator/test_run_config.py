import dataclasses
import json

import pytest
import tensorflow as tf

from replicate.estimator.cluster import ClusterConfig, ClusterConfigError
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


def test_defaults():
    config = RunConfig()
    assert {field.name: getattr(config, field.name) for field in dataclasses.fields(config)} == {
        "model_dir": None,
        "tf_random_seed": 1,
        "save_summary_steps": 100,
        "save_checkpoints_steps": None,
        "save_checkpoints_secs": 600,
        "session_config": None,
        "keep_checkpoint_max": 5,
        "keep_checkpoint_every_n_hours": 10000,
        "log_step_count_steps": 100,
        "save_input_position": True,
        "continue_input": False,
        "profile_steps": None,
        "progress": "auto",
        "device_fn": None,
        "protocol": None,
        "session_creation_timeout_secs": 7200,
        "step_timeout_secs": None,
        "max_restarts": 10,
        "checkpoint_save_graph_def": False,
        "cluster": ClusterConfig(),
    }


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().model_dir = "a"


def test_saving_by_steps_switches_saving_by_seconds_off():
    assert RunConfig(save_checkpoints_steps=10).save_checkpoints_secs is None


def test_continued_input_needs_its_position():
    assert RunConfig(continue_input=True).continue_input
    with pytest.raises(ValueError, match=r"continue_input=True needs .* save_input_position=False"):
        RunConfig(continue_input=True, save_input_position=False)


def test_replace_keeps_the_rest():
    config = RunConfig(tf_random_seed=3).replace(model_dir="a")
    assert (config.tf_random_seed, config.model_dir) == (3, "a")


def test_replace_swaps_the_checkpoint_interval():
    by_steps = RunConfig().replace(save_checkpoints_steps=7)
    assert (by_steps.save_checkpoints_steps, by_steps.save_checkpoints_secs) == (7, None)
    by_seconds = by_steps.replace(save_checkpoints_secs=9)
    assert (by_seconds.save_checkpoints_steps, by_seconds.save_checkpoints_secs) == (None, 9)
    assert by_steps.replace(model_dir="a").save_checkpoints_steps == 7


def test_replace_refuses_unknown_settings():
    with pytest.raises(ValueError, match=r"Cannot replace \['save_steps'\]"):
        RunConfig().replace(save_steps=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 1}, "got both"),
        ({"save_checkpoints_steps": 0}, "save_checkpoints_steps must be .* >= 1"),
        ({"save_checkpoints_secs": 0}, "save_checkpoints_secs must be greater than 0"),
        ({"save_checkpoints_secs": float("nan")}, "save_checkpoints_secs must be greater"),
        ({"save_summary_steps": 0}, "save_summary_steps must be"),
        ({"log_step_count_steps": 1.5}, "log_step_count_steps must be a whole number"),
        ({"keep_checkpoint_max": -1}, "keep_checkpoint_max must be .* >= 0"),
        ({"keep_checkpoint_every_n_hours": 0}, "keep_checkpoint_every_n_hours must be"),
        ({"profile_steps": (5, 4)}, r"1 <= first <= last, or None, got \(5, 4\)"),
        ({"profile_steps": (0, 4)}, "profile_steps must be"),
        ({"profile_steps": 5}, "profile_steps must be the first and the last step"),
        ({"profile_steps": (True, 2)}, "profile_steps must be"),
        ({"progress": "loud"}, "progress must be one of .* got 'loud'"),
        ({"model_dir": ""}, "model_dir is"),
        ({"session_creation_timeout_secs": 0}, "session_creation_timeout_secs must be"),
        ({"step_timeout_secs": -1}, "step_timeout_secs must be greater than 0"),
        ({"max_restarts": -1}, "max_restarts must be a whole number >= 0"),
        ({"max_restarts": None}, "max_restarts must be a whole number >= 0, got None"),
    ],
)
def test_wrong_settings(settings, text):
    with pytest.raises(ValueError, match=text):
        RunConfig(**settings)


def test_session_config_must_be_a_config_proto():
    assert RunConfig(session_config=v1.ConfigProto()).session_config is not None
    with pytest.raises(TypeError, match=r"must be a tf.compat.v1.ConfigProto"):
        RunConfig(session_config={"gpu": 1})


def test_device_fn_must_be_a_function():
    assert RunConfig(device_fn=str).device_fn is str
    with pytest.raises(TypeError, match="device_fn must be a function"):
        RunConfig(device_fn="/cpu:0")


CLUSTER = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}


def set_tf_config(monkeypatch, **config):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_cluster_comes_from_the_environment_and_is_kept_by_replace(monkeypatch):
    task = {"type": "worker", "index": 0}
    set_tf_config(monkeypatch, cluster=CLUSTER, task=task, service={"a": 1})
    config = RunConfig()
    monkeypatch.delenv("TF_CONFIG")
    config = config.replace(tf_random_seed=3)
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 0, False)
    assert (config.master, config.evaluation_master) == ("grpc://b:1", "")
    assert (config.num_ps_replicas, config.num_worker_replicas) == (1, 2)
    assert config.global_id_in_cluster == 1
    assert config.cluster_spec.as_dict() == CLUSTER
    assert config.service == {"a": 1}


def test_wrong_cluster_is_told_at_once(monkeypatch):
    set_tf_config(monkeypatch, cluster=CLUSTER)
    with pytest.raises(ClusterConfigError, match='"task" is missing'):
        RunConfig()


def test_cluster_can_be_given(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{bad")
    assert RunConfig(cluster=ClusterConfig(task_id=0)).is_chief
    with pytest.raises(TypeError, match="cluster must be a ClusterConfig"):
        RunConfig(cluster=CLUSTER)


def test_model_dir_of_the_environment(monkeypatch):
    set_tf_config(monkeypatch, model_dir="/tmp/a")
    assert RunConfig().model_dir == RunConfig(model_dir="/tmp/a").model_dir == "/tmp/a"
    with pytest.raises(ValueError, match="model_dir is '/tmp/b', but TF_CONFIG asks for '/tmp/a'"):
        RunConfig(model_dir="/tmp/b")
