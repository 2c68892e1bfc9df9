import json

import pytest
import tensorflow as tf

import replicate
from examples import cli
from examples.config_record import ConfigRecord
from replicate.estimator.lease import writer_lease
from replicate.estimator.lease.claim import claim_lease

v1 = tf.compat.v1


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
        return json.loads((tmp_path / "config.json").read_text())

    return run


def test_the_configuration_is_written_when_training_begins(train, tmp_path):
    found = train(1, rate=1)
    assert found["rate"] == 1
    assert found["run_config"]["progress"] == "off"
    assert train(1, rate=2)["rate"] == 1  # It makes no step.
    assert train(2, rate=3)["rate"] == 3
    assert json.loads((tmp_path / "config-1.json").read_text())["rate"] == 1


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
