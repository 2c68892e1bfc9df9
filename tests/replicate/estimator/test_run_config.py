"""Settings of a run: their values, where they come from, and what they mean for sessions."""

import copy
import dataclasses
import json
import math
import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import ClusterConfigError
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.estimator.run_settings import CHECKS, checked_settings
from replicate.estimator.strategies import strategy_request

v1 = tf.compat.v1


def test_attributes_cannot_be_set():
    config = RunConfig()
    for name, advice in (
        ("model_dir", r"config\.replace\(model_dir=\.\.\.\)"),
        ("is_chief", r"follows from the cluster: config = config\.replace\(cluster="),
        ("_model_dir", r"config\.replace\(model_dir="),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"Cannot set '.* {advice}"):
            setattr(config, name, 1)
        with pytest.raises(AttributeError, match=advice):
            delattr(config, name)
    assert config == RunConfig()


OLD_ATTRIBUTES = """
    checkpoint_save_graph_def cluster_spec device_fn eval_distribute evaluation_master
    experimental_max_worker_delay_secs global_id_in_cluster is_chief keep_checkpoint_every_n_hours
    keep_checkpoint_max log_step_count_steps master model_dir num_ps_replicas num_worker_replicas
    protocol save_checkpoints_secs save_checkpoints_steps save_summary_steps service session_config
    session_creation_timeout_secs task_id task_type tf_random_seed train_distribute"""


def test_program_may_set_attributes_of_its_own_that_resemble_no_setting(caplog):
    config = RunConfig("/m")
    config.hparams = {"width": 3}
    config.use_tpu = False
    for other in (config.replace(tf_random_seed=5), copy.copy(config), copy.deepcopy(config)):
        assert (other.hparams, other.use_tpu) == ({"width": 3}, False)
    for same in (copy.deepcopy(config), config.replace()):
        assert (same, hash(same)) == (config, hash(config))
    assert config != RunConfig("/m")
    assert "hparams" not in config.as_dict()
    del config.hparams, config.use_tpu
    assert config == RunConfig("/m")
    assert not caplog.records
    config.save_checkpoint_step = 5
    assert config.save_checkpoints_steps is None
    assert r"write config = config.replace(save_checkpoints_steps=...)" in caplog.text


def test_attributes_of_tf_estimator_can_be_read():
    config = RunConfig("a")
    for name in OLD_ATTRIBUTES.split():
        assert getattr(config, name) == getattr(config, f"_{name}"), name
    assert (config.task_type, config.task_id, config.master) == ("worker", 0, "")


class Fixed(RunConfig):
    """A subclass as programs have them: own arguments, attributes, and a property."""

    def __init__(self, rows, **settings):
        self.rows = rows
        super().__init__(**settings)
        self._is_chief = False

    @property
    def save_checkpoints_steps(self):
        """A third of what is given."""
        return self._save_checkpoints_steps // 3


def test_subclass_has_own_constructor_attributes_and_properties():
    config = Fixed(4, save_checkpoints_steps=30)
    config.columns = 5
    for each in (config, config.replace(tf_random_seed=3)):
        assert (type(each), each.rows, each.columns) == (Fixed, 4, 5)
        assert (each.save_checkpoints_steps, each.save_checkpoints_secs) == (10, None)
        assert not each.is_chief
    assert config.replace(tf_random_seed=3).tf_random_seed == 3
    with pytest.raises(AttributeError, match=r"config\.replace\(tf_random_seed"):
        config.tf_random_seed = 3


def test_replace_keeps_the_rest_and_swaps_the_checkpoint_interval():
    for settings in ({"save_checkpoints_steps": None}, {"save_checkpoints_secs": None}):
        config = RunConfig(**settings)
        assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, None)
    assert RunConfig(save_checkpoints_steps=5, save_checkpoints_secs=None).save_checkpoints_steps
    config = RunConfig(tf_random_seed=3).replace(model_dir="a")
    assert (config.tf_random_seed, config.model_dir) == (3, "a")
    by_steps = RunConfig().replace(save_checkpoints_steps=7)
    assert (by_steps.save_checkpoints_steps, by_steps.save_checkpoints_secs) == (7, None)
    by_seconds = by_steps.replace(save_checkpoints_secs=9)
    assert (by_seconds.save_checkpoints_steps, by_seconds.save_checkpoints_secs) == (None, 9)
    assert by_steps.replace(model_dir="a").save_checkpoints_steps == 7
    assert RunConfig().replace(save_checkpoints_secs=None).save_checkpoints_secs is None
    assert RunConfig().replace(save_checkpoints_steps=None).save_checkpoints_secs == 600
    with pytest.raises(ValueError, match="got both"):
        RunConfig().replace(save_checkpoints_secs=5, save_checkpoints_steps=5)
    with pytest.raises(ValueError, match=r"Cannot replace \['save_steps'\]"):
        RunConfig().replace(save_steps=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 1}, "got both"),
        ({"save_checkpoints_steps": -1}, "save_checkpoints_steps must be .* >= 0"),
        ({"save_checkpoints_secs": "600"}, "save_checkpoints_secs must be >= 0, got '600'"),
        ({"save_summary_steps": -1}, "save_summary_steps must be"),
        ({"log_step_count_steps": 0}, "log_step_count_steps must be"),
        ({"tf_random_seed": "a"}, "tf_random_seed must be a whole number or None, got 'a'"),
        ({"experimental_max_worker_delay_secs": 0.5}, "experimental_max_worker_delay_secs must"),
        ({"keep_checkpoint_max": -1}, "keep_checkpoint_max must be .* >= 0"),
        ({"keep_checkpoint_every_n_hours": 0}, "keep_checkpoint_every_n_hours must be"),
        ({"profile_steps": (5, 4)}, r"1 <= first <= last, or None, got \(5, 4\)"),
        ({"profile_steps": (0, 4)}, "profile_steps must be the first and the last step"),
        ({"progress": "loud"}, "progress must be one of .* got 'loud'"),
        ({"on_save_error": "skip"}, r"on_save_error must be one of \['stop', 'retry'\], got"),
        ({"model_dir": ""}, "model_dir is"),
        ({"session_creation_timeout_secs": 0}, "session_creation_timeout_secs must be"),
        ({"step_timeout_secs": -1}, "step_timeout_secs must be greater than 0"),
        ({"max_restarts": None}, "max_restarts must be a whole number >= 0, got None"),
        (
            {"continue_input": True, "save_input_position": False},
            "continue_input=True needs .* save_input_position=False",
        ),
    ],
)
def test_wrong_settings(settings, text):
    with pytest.raises(ValueError, match=text):
        RunConfig(**settings)


CLUSTER = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
JOBS = {job: tuple(tasks) for job, tasks in CLUSTER.items()}


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
    set_tf_config(monkeypatch, cluster=CLUSTER)
    with pytest.raises(ClusterConfigError, match='"task" is missing'):
        RunConfig()
    assert RunConfig(cluster=ClusterConfig(task_id=0)).is_chief, "TF_CONFIG is not read"


def optimizer_iterations(options):
    rewrites = options.graph_options.rewrite_options
    return rewrites.NumIterationsType.Name(rewrites.meta_optimizer_iterations)


def test_session_config_of_a_task_has_its_device_filters(monkeypatch):
    expected = {
        ("chief", 0): ["/job:ps", "/job:chief"],
        ("worker", 0): ["/job:ps", "/job:worker/task:0"],
        ("ps", 0): ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }
    for (role, index), filters in expected.items():
        set_tf_config(monkeypatch, cluster=CLUSTER, task={"type": role, "index": index})
        found = RunConfig().session_config
        assert (list(found.device_filters), found.allow_soft_placement) == (filters, True)
        assert optimizer_iterations(found) == "ONE", "as in tf.estimator"
    set_tf_config(monkeypatch, cluster=CLUSTER, task={"type": "evaluator", "index": 0})
    assert RunConfig().session_config is None
    given = v1.ConfigProto(allow_soft_placement=False)
    assert RunConfig(session_config=given).session_config == given


def test_replace_gives_another_task_its_own_device_filters():
    chief, worker = (ClusterConfig(JOBS, role) for role in ("chief", "worker"))
    config = RunConfig(cluster=chief)
    filters = config.replace(cluster=worker).session_config.device_filters
    assert list(filters) == ["/job:ps", "/job:worker/task:0"]
    assert config.replace(cluster=ClusterConfig()).session_config is None
    own = config.replace(session_config=v1.ConfigProto())
    assert own.replace(cluster=worker).session_config == v1.ConfigProto()
    for name, wrong, text in (
        ("session_config", {"gpu": 1}, r"must be a tf.compat.v1.ConfigProto"),
        ("device_fn", "/cpu:0", "device_fn must be a function"),
        ("cluster", {"chief": ["a:1"]}, "cluster must be a ClusterConfig"),
    ):
        with pytest.raises(TypeError, match=text):
            RunConfig(**{name: wrong})


def test_model_dir_of_the_environment(monkeypatch):
    set_tf_config(monkeypatch, model_dir="/tmp/a")
    assert RunConfig().model_dir == RunConfig(model_dir="/tmp/a").model_dir == "/tmp/a"
    with pytest.raises(ValueError, match="model_dir is '/tmp/b', but TF_CONFIG asks for '/tmp/a'"):
        RunConfig(model_dir="/tmp/b")


def test_numbers_become_those_of_python_and_paths_strings():
    for number in (1000, np.int64(1000), np.float32(1000)):
        for name in ("tf_random_seed", "save_checkpoints_steps", "max_restarts"):
            found = checked_settings({name: number})[name]
            assert (found, type(found)) == (1000, int)
    for value in ("a/b", b"a/b", pathlib.Path("a/b")):
        assert checked_settings({"model_dir": value}) == {"model_dir": "a/b"}
    with pytest.raises(TypeError, match="model_dir must be a path, got 5"):
        checked_settings({"model_dir": 5})


def test_none_is_accepted_by_every_setting_that_tf_estimator_has():
    refusing = {"max_restarts", "on_save_error", "progress"}
    found = checked_settings(dict.fromkeys(set(CHECKS) - refusing))
    assert found["session_creation_timeout_secs"] == math.inf
    assert found["keep_checkpoint_every_n_hours"] == 10000
    assert found["save_summary_steps"] is found["train_distribute"] is None
    for name in ("save_summary_steps", "save_checkpoints_secs"):
        assert checked_settings({name: 0}) == {name: 0}, "off"


class DistributeConfig(NamedTuple):
    train_distribute: object = None
    eval_distribute: object = None
    remote_cluster: object = None


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (object(), TypeError, "must be a tf.contrib.distribute.DistributeConfig or None, got <ob"),
        (DistributeConfig(remote_cluster={"worker": []}), ValueError, "names the remote_cluster "),
        (DistributeConfig(3), ValueError, "experimental_distribute.train_distribute must be a Mir"),
        (DistributeConfig(None, 3), ValueError, "experimental_distribute.eval_distribute must be"),
    ],
)
def test_other_distribute_configs_are_refused(value, error, text):
    with pytest.raises(error, match=text):
        checked_settings({"experimental_distribute": value})
    for name in ("train_distribute", "eval_distribute"):
        with pytest.raises(ValueError, match=rf"RunConfig: {name} must be a MirroredStrategy"):
            checked_settings({name: value})


def test_a_strategy_names_the_devices_of_the_towers_or_leaves_them_to_the_process(graph):
    # In a graph: eagerly, a strategy makes tensors on its devices, which must be there.
    gpus = ("/device:GPU:0", "/device:GPU:1")
    for strategy, devices in (
        (tf.distribute.MirroredStrategy(["/cpu:0"]), ("/device:CPU:0",)),
        (v1.distribute.MirroredStrategy(["/gpu:0", "/gpu:1"]), gpus),
        (tf.distribute.OneDeviceStrategy("/gpu:1"), gpus[1:]),
    ):
        assert strategy_request("train_distribute", strategy).devices == devices
    central = v1.distribute.experimental.CentralStorageStrategy()
    assert len(strategy_request("train_distribute", central).devices) >= 1
