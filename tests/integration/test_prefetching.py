"""Training on batches that were sent ahead is, bit by bit, training on batches that were not."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1

RATE = 0.1
_random = np.random.default_rng(0)
ROWS = _random.normal(size=[22, 3]).astype(np.float32)
LABELS = ROWS @ np.array([1.0, 2.0, 3.0], np.float32)


def model_fn(features, labels, mode):
    weights = v1.get_variable("weights", initializer=tf.zeros([3]))
    outputs = tf.linalg.matvec(features["rows"], weights)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, {"outputs": outputs})
    loss = v1.losses.mean_squared_error(labels, outputs)
    optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(RATE, 0.9))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    metrics = {"error": v1.metrics.mean_absolute_error(labels, outputs)}
    return replicate.EstimatorSpec(mode, {"outputs": outputs}, loss, train_op, metrics)


def input_fn(ahead, epochs=2):
    """Eleven batches of four rows in two epochs; the last batch has no partner to wait for."""

    def make():
        dataset = tf.data.Dataset.from_tensor_slices(({"rows": ROWS}, LABELS))
        batches = dataset.shuffle(22, seed=3).repeat(epochs).batch(4)
        return batches.apply(replicate.prefetch_to_towers) if ahead else batches

    return make


def estimator_in(path, towers=2, **settings):
    devices = [f"/cpu:{index}" for index in range(towers)]
    replicated = replicate.replicate_model_fn(model_fn, devices=devices, uneven="weighted")
    config = replicate.RunConfig(progress="off", save_checkpoints_steps=3, **settings)
    return replicate.Estimator(replicated, str(path), config)


def state(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def assert_same(estimator, other):
    one, two = state(estimator), state(other)
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Trained to the end of the data, with nothing sent ahead."""
    estimator = estimator_in(tmp_path_factory.mktemp("plain"))
    estimator.train(input_fn(ahead=False))
    assert state(estimator)["global_step"] == 11
    return estimator


class FailAfterFiveSteps(v1.train.SessionRunHook):
    """The newest checkpoint is that of step 3, and the batch of step 6 is on the devices."""

    def __init__(self):
        self.steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == 5:
            raise InterruptedError


def test_training_goes_on_after_a_failure_on_any_number_of_towers(tmp_path, plain):
    folder = tmp_path / "two"
    with pytest.raises(InterruptedError):
        estimator_in(folder).train(input_fn(ahead=True), hooks=[FailAfterFiveSteps()])
    shutil.copytree(folder, tmp_path / "one")
    two, one = estimator_in(folder), estimator_in(tmp_path / "one", towers=1)
    assert_same(two.train(input_fn(ahead=True)), plain)
    one.train(input_fn(ahead=True))
    found, expected = state(one), state(plain)
    assert found["global_step"] == expected["global_step"]
    np.testing.assert_allclose(found["weights"], expected["weights"], rtol=0, atol=1e-5)


def test_evaluation_and_prediction_send_nothing_ahead(plain):
    def results(ahead):
        make = input_fn(ahead, epochs=1)
        return plain.evaluate(make), list(plain.predict(make))

    (metrics, outputs), (other_metrics, other_outputs) = results(False), results(True)
    assert metrics == other_metrics
    assert len(outputs) == len(other_outputs) == 22
    for one, two in zip(outputs, other_outputs, strict=True):
        assert one["outputs"] == two["outputs"]


@pytest.mark.broad
def test_a_checkpoint_without_it_begins_the_input_anew(tmp_path, caplog):
    estimator_in(tmp_path, continue_input=True).train(input_fn(ahead=False), max_steps=3)
    estimator = estimator_in(tmp_path)
    estimator.train(input_fn(ahead=True))
    assert state(estimator)["global_step"] == 3 + 11
    assert "begins anew" in caplog.text
