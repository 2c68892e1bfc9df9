import math
import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_settings import (
    CHECKS,
    checked_settings,
    default_session_config,
)
from replicate.estimator.strategies import strategy_request

v1 = tf.compat.v1

JOBS = {"chief": ("a:1",), "worker": ("a:2", "a:3"), "ps": ("a:4",)}


@pytest.mark.parametrize("value", [1000, np.int64(1000), np.float32(1000)])
@pytest.mark.parametrize(
    "name",
    [
        "tf_random_seed",
        "save_summary_steps",
        "save_checkpoints_steps",
        "save_checkpoints_secs",
        "keep_checkpoint_max",
        "log_step_count_steps",
        "experimental_max_worker_delay_secs",
        "max_restarts",
    ],
)
def test_whole_numbers_of_any_type_become_python_numbers(name, value):
    found = checked_settings({name: value})[name]
    assert found == 1000
    assert type(found) in ((int, float) if name == "save_checkpoints_secs" else (int,))


def test_paths_become_strings():
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


def test_a_distribute_config_holds_both_strategies():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    both = DistributeConfig(strategy, strategy)
    assert checked_settings({"experimental_distribute": both})["experimental_distribute"] is both


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


def test_session_config_without_a_cluster_or_beside_a_server_has_no_default():
    assert default_session_config(ClusterConfig()) is None
    assert default_session_config(ClusterConfig(JOBS, "worker", target="grpc://a:1")) is None
    by_master = ClusterConfig(JOBS, "worker", session_master="grpc://a:1")
    assert len(default_session_config(by_master).device_filters) == 2


@pytest.mark.parametrize(
    ("make", "devices"),
    [
        (lambda: tf.distribute.MirroredStrategy(["/cpu:0"]), ("/device:CPU:0",)),
        (
            lambda: v1.distribute.MirroredStrategy(["/gpu:0", "/gpu:1"]),
            ("/device:GPU:0", "/device:GPU:1"),
        ),
        (lambda: tf.distribute.OneDeviceStrategy("/gpu:1"), ("/device:GPU:1",)),
    ],
)
def test_a_strategy_names_the_devices_of_the_towers(make, devices, graph):
    # In a graph: eagerly, a strategy makes tensors on its devices, which must be there.
    request = strategy_request("train_distribute", make())
    assert request is not None
    assert request.devices == devices


@pytest.mark.parametrize("name", ["CentralStorageStrategy", "ParameterServerStrategy"])
def test_strategies_with_central_variables_have_the_towers_of_this_process(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    request = strategy_request("train_distribute", getattr(v1.distribute.experimental, name)())
    assert request is not None
    assert len(request.devices) >= 1


def test_other_values_are_refused():
    assert strategy_request("train_distribute", None) is None
    with pytest.raises(ValueError, match=r"RunConfig: eval_distribute must be a Mirr.*got "):
        strategy_request("eval_distribute", "mirrored")
