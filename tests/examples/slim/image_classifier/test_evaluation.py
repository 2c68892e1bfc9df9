"""Metrics of the small network against NumPy, and the checkpoints that are evaluated."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import model_deploy
import replicate
from examples.slim.image_classifier import checkpoints, clones, evaluation

v1 = tf.compat.v1


@pytest.fixture
def checkpoint(fake_network, batch, tmp_path):
    """One whose averages are the negative of its variables; also its weights and bias."""
    random = np.random.RandomState(4)
    weights, bias = random.randn(4, 6).astype(np.float32), random.randn(6).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        network = clones.Network(model_name="net", num_classes=6)
        alone = model_deploy.DeploymentConfig(clone_on_cpu=True)
        clones.create(network, alone, *map(tf.constant, batch), is_training=False)
        step = v1.train.create_global_step()
        made = v1.get_collection(v1.GraphKeys.MODEL_VARIABLES)
        averages = v1.train.ExponentialMovingAverage(0.9)
        averages.apply(made)
        session.run(v1.global_variables_initializer())
        step.load(12, session)
        for variable, value in zip(made, (weights, bias, 0.0), strict=True):
            variable.load(value, session)
            averages.average(variable).load(-value, session)
        path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 12)
    return path, weights, bias


@pytest.mark.parametrize(
    ("num_clones", "batch_size", "decay"), [(1, 7, None), (2, 3, 0.9), (3, 6, None)]
)
def test_metrics_are_exact(tmp_path, batch, checkpoint, num_clones, batch_size, decay):
    path, weights, bias = checkpoint
    settings = evaluation.EvaluationSettings(
        network=clones.Network(model_name="net", num_classes=6),
        deployment=model_deploy.DeploymentConfig(num_clones, clone_on_cpu=True),
        moving_average_decay=decay,
    )
    config = replicate.RunConfig(progress="off")
    estimator = replicate.Estimator(evaluation.model_fn, str(tmp_path / "eval"), config, settings)
    results = estimator.evaluate(
        lambda: tf.data.Dataset.from_tensor_slices(batch).batch(batch_size), checkpoint_path=path
    )
    logits = batch[0].reshape(7, 4) @ weights + bias
    ranks = (-logits if decay else logits).argsort(axis=1)[:, ::-1]
    in_first = (ranks[:, 0] == batch[1]).mean()
    in_five = (ranks[:, :5] == batch[1][:, np.newaxis]).any(axis=1).mean()
    assert results["Accuracy"] == pytest.approx(in_first, abs=1e-6)
    assert results["Recall_5"] == pytest.approx(in_five, abs=1e-6)
    assert results["global_step"] == 12
    assert list(tmp_path.glob("eval/eval/events.*"))


def test_following_waits_as_long_as_told(monkeypatch):
    def iterator(folder, **given):
        return iter([(folder, given)])

    monkeypatch.setattr(tf.train, "checkpoints_iterator", iterator)
    for secs, timeout in ((7.0, 7.0), (0.0, None)):
        (found,) = checkpoints.following("there", 5.0, secs)
        assert found == ("there", {"min_interval_secs": 5.0, "timeout": timeout})


def test_following_yields_new_ones_until_none_comes(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", [])
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        first, second = (f"{tmp_path}/model.ckpt-{step}" for step in (1, 2))
        for nowhere in (tmp_path, first):
            with pytest.raises(ValueError, match=f"There is no checkpoint at {nowhere}. Correct"):
                checkpoints.newest(str(nowhere))
        assert saver.save(session, f"{tmp_path}/model.ckpt", 1) == first
        found = checkpoints.following(str(tmp_path), 0.01, 0.2)
        assert next(found) == first
        assert saver.save(session, f"{tmp_path}/model.ckpt", 2) == second
        assert list(found) == [second]
    assert checkpoints.newest(str(tmp_path)) == second
    assert checkpoints.newest(first) == first


def test_unreadable_path_is_refused(monkeypatch):
    error = tf.errors.UnavailableError(None, None, "no such bucket")
    monkeypatch.setattr(v1.train, "checkpoint_exists", mock.Mock(side_effect=error))
    with pytest.raises(ValueError, match="Cannot read --checkpoint_path=a/b: no such bucket"):
        checkpoints.newest("a/b")
