"""DeploymentConfig: from counts to devices."""

import dataclasses

import pytest
import tensorflow as tf

from model_deploy import DeploymentConfig

v1 = tf.compat.v1


def test_defaults_are_one_clone_on_the_first_gpu():
    config = DeploymentConfig()
    assert dataclasses.astuple(config) == (1, False, 0, 1, 0, "worker", "ps", "round_robin", False)
    assert config.caching_device() is None
    assert config.clone_device(0) == "/device:GPU:0"
    assert config.clone_scope(0) == ""
    assert config.optimizer_device() == "/device:CPU:0"
    assert config.inputs_device() == "/device:CPU:0"
    assert config.variables_device() == "/device:CPU:0"
    assert (config.worker_device, config.ps_device) == ("", "")


def test_several_clones_have_separate_names_and_share_the_cpu():
    config = DeploymentConfig(num_clones=2, clone_on_cpu=True)
    assert [config.clone_device(index) for index in (0, 1)] == ["/device:CPU:0"] * 2
    assert [config.clone_scope(index) for index in (0, 1)] == ["clone_0", "clone_1"]


def test_devices_name_jobs_with_parameter_servers_but_never_worker_tasks():
    config = DeploymentConfig(num_clones=2, replica_id=1, num_replicas=2, num_ps_tasks=1)
    named = dataclasses.replace(config, worker_job_name="trainer", ps_job_name="store")
    assert (named.worker_device, named.ps_device) == ("/job:trainer", "/job:store")
    assert config.clone_device(1) == "/job:worker/device:GPU:1"
    assert config.optimizer_device() == "/job:worker/device:CPU:0"
    assert config.inputs_device() == "/job:worker/device:CPU:0"
    assert (config.worker_device, config.ps_device) == ("/job:worker", "/job:ps")


def test_only_variables_go_to_parameter_servers_in_turn(any_graph):
    config = DeploymentConfig(num_ps_tasks=2)
    with v1.device(config.variables_device()):
        made = [v1.get_variable("a", shape=[]), v1.Variable(0.0)]
        other = tf.no_op()
        with v1.device("/device:GPU:3"):
            pinned = v1.get_variable("pinned", shape=[])
    with v1.device(config.variables_device()):
        made.append(v1.get_variable("on_empty_servers", shape=[]))
    expected = [f"/job:ps/task:{task}/device:CPU:0" for task in (0, 1, 0)]
    assert [variable.device for variable in made] == expected
    assert (other.device, pinned.device) == ("", "/device:GPU:3")


def test_by_bytes_placement_balances_variable_sizes(graph):
    config = DeploymentConfig(num_ps_tasks=2, variable_placement="by_bytes")
    with v1.device(config.variables_device()):
        made = [v1.get_variable(f"v{n}", shape=[n]) for n in (100, 30, 40)]
    assert [variable.device[len("/job:ps/task:")] for variable in made] == list("011")


def test_reference_variable_is_read_where_it_lives_and_its_cache_where_it_is_used(new_graph):
    config = DeploymentConfig(num_ps_tasks=1)
    with new_graph(use_resource=False), v1.device(config.variables_device()):
        plain = v1.get_variable("plain", shape=[])
        cached = v1.get_variable("cached", shape=[], caching_device=config.caching_device())
    assert plain.value().device == plain.device == cached.device
    assert cached.value().device == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"num_clones": 0}, "num_clones is 0; it must be at least 1"),
        ({"replica_id": -1}, "replica_id is -1; it must be at least 0"),
        ({"num_replicas": 0}, "num_replicas is 0; it must be at least 1"),
        ({"num_ps_tasks": -2}, "num_ps_tasks is -2; it must be at least 0"),
        ({"num_replicas": 2, "replica_id": 2, "num_ps_tasks": 1}, "replica_id is 2, but .* 2 repl"),
        ({"num_replicas": 2}, "2 replicas .* num_ps_tasks must be at least 1"),
        ({"num_ps_tasks": 1, "worker_job_name": ""}, "worker_job_name is empty"),
        ({"num_ps_tasks": 1, "ps_job_name": ""}, "ps_job_name is empty"),
        ({"variable_placement": "fair"}, "'fair'; accepted are 'round_robin', 'by_bytes'"),
    ],
)
def test_invalid_settings_are_refused(arguments, reason):
    with pytest.raises(ValueError, match=f"Cannot make a DeploymentConfig: .*{reason}"):
        DeploymentConfig(**arguments)


@pytest.mark.parametrize(("method", "index"), [("clone_device", 2), ("clone_scope", -1)])
def test_clone_index_out_of_range_is_refused(method, index):
    with pytest.raises(ValueError, match=f"no clone {index}: num_clones is 2"):
        getattr(DeploymentConfig(num_clones=2), method)(index)
