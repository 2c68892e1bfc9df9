"""config.json: what the newest run was asked to do, and what was asked before it."""

import json

import pytest
import tensorflow as tf

import model_deploy
import replicate
from examples import config_file
from replicate.estimator.cluster_config import ClusterConfig


@pytest.fixture(params=["local", "of_tensorflow"])
def record(request, tmp_path):
    """Records params in a directory that is not there yet, and returns those of all files in it."""
    local = f"{tmp_path}/a/model/"
    folder = local if request.param == "local" else f"ram:/{tmp_path}"

    def record(step, **params):
        config_file.record(folder, step, params=params)
        return {name: read(f"{folder}/{name}")["params"] for name in tf.io.gfile.listdir(folder)}

    return record


def read(path):
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


def test_what_is_written(tmp_path):
    params = {"damping": 0.03, "clones": model_deploy.DeploymentConfig(num_clones=2), "f": read}
    jobs = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2", "127.0.0.1:3")}
    config = replicate.RunConfig(save_summary_steps=5, cluster=ClusterConfig(jobs, "chief"))
    config_file.record(str(tmp_path), 0, params=params, run_config=config)
    found = read(tmp_path / "config.json")
    assert list(found) == ["program", "flags", "params", "run_config"]
    assert (found["params"]["damping"], found["params"]["f"]) == (0.03, "read")
    assert found["params"]["clones"]["num_clones"] == 2
    assert found["run_config"]["save_summary_steps"] == 5
    assert found["run_config"]["save_checkpoints_secs"] == 600
    assert found["run_config"]["cluster"] == {"chief": 1, "worker": 2}


def test_a_run_that_goes_on_with_the_same_leaves_one_file(record):
    record(0, rate=1)
    assert record(100, rate=1) == {"config.json": {"rate": 1}}


def test_what_was_asked_before_is_kept_with_the_step_that_was_reached_with_it(record):
    record(0, rate=1)
    record(100, rate=2)
    found = record(250, rate=3)
    assert found == {
        "config-100.json": {"rate": 1},
        "config-250.json": {"rate": 2},
        "config.json": {"rate": 3},
    }


def test_what_made_no_step_is_not_kept(record):
    record(0, rate=1)
    assert record(0, rate=2) == {"config.json": {"rate": 2}}
    record(100, rate=3)
    assert record(100, rate=4) == {"config-100.json": {"rate": 2}, "config.json": {"rate": 4}}


def test_a_directory_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot be written to .*/file/config\.json: .*directory"):
        config_file.record(f"{tmp_path}/file", 0)
