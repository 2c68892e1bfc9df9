"""The file with the flags and settings of a run, and the hook that writes it."""

import json

import pytest
import tensorflow as tf

import model_deploy
import replicate
from examples import cli
from examples.config_record import ConfigRecord
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.lease import writer_lease
from replicate.estimator.lease.claim import claim_lease

v1 = tf.compat.v1


def read(path):
    with tf.io.gfile.GFile(str(path)) as file:
        return json.loads(file.read())


def test_record_config_writes_all_settings(tmp_path):
    params = {"damping": 0.03, "clones": model_deploy.DeploymentConfig(num_clones=2), "f": read}
    jobs = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2", "127.0.0.1:3")}
    config = replicate.RunConfig(save_summary_steps=5, cluster=ClusterConfig(jobs, "chief"))
    cli.record_config(str(tmp_path), 0, params=params, run_config=config)
    found = read(tmp_path / "config.json")
    assert list(found) == ["program", "flags", "params", "run_config"]
    assert (found["params"]["damping"], found["params"]["f"]) == (0.03, "read")
    assert found["params"]["clones"]["num_clones"] == 2
    assert found["run_config"]["save_summary_steps"] == 5
    assert found["run_config"]["cluster"] == {"chief": 1, "worker": 2}


@pytest.mark.parametrize("place", ["{}/a/model/", "ram:/{}"])
def test_previous_config_is_kept_under_the_step_it_reached(tmp_path, place):
    """A run that made no step leaves none."""
    folder = place.format(tmp_path)
    for step, rate, kept in (
        (0, 1, {}),
        (0, 2, {}),
        (100, 2, {}),
        (100, 3, {"config-100.json": 2}),
        (100, 4, {"config-100.json": 2}),
        (250, 5, {"config-100.json": 2, "config-250.json": 4}),
    ):
        cli.record_config(folder, step, rate=rate)
        names = tf.io.gfile.listdir(folder)
        found = {name: read(f"{folder.rstrip('/')}/{name}")["rate"] for name in names}
        assert found == {"config.json": rate, **kept}


def model_fn(features, mode):
    step = v1.assign_add(v1.train.get_global_step(), 1)
    return replicate.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=step)


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Trains up to a step with the hook, and returns config.json."""
    monkeypatch.setattr(cli, "_flag_values", dict)

    def run(steps, **settings):
        config = replicate.RunConfig(str(tmp_path), save_summary_steps=None, progress="off")
        estimator = replicate.Estimator(model_fn, config=config)
        hooks = [ConfigRecord(estimator, **settings)]
        estimator.train(lambda: tf.data.Dataset.from_tensors([1.0]).repeat(), hooks, None, steps)
        return read(tmp_path / "config.json")

    return run


def test_the_configuration_is_written_when_training_begins(train, tmp_path):
    found = train(1, rate=1)
    assert found["rate"] == 1
    assert found["run_config"]["progress"] == "off"
    assert train(1, rate=2)["rate"] == 1  # It makes no step.
    assert train(2, rate=3)["rate"] == 3
    assert read(tmp_path / "config-1.json")["rate"] == 1


def test_a_refused_job_leaves_the_configuration(train, tmp_path, monkeypatch):
    monkeypatch.setattr(writer_lease, "RENEW_SECS", 0.05)
    (tmp_path / "config.json").write_text("of the job that trains")
    lease = claim_lease(str(tmp_path))
    try:
        with pytest.raises(replicate.ModelDirInUseError):
            train(1)
    finally:
        lease.release()
    assert (tmp_path / "config.json").read_text() == "of the job that trains"


def test_another_folder_that_cannot_be_written_ends_the_program(train, capsys):
    with pytest.raises(SystemExit) as end:
        train(1, folder="/dev/null")
    assert end.value.code == 2
    assert "cannot be written to /dev/null/config.json" in capsys.readouterr().err
