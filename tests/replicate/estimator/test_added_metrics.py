import functools

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import Estimator, RunConfig
from replicate.estimator.added_metrics import add_metrics
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    outputs = 2 * features
    loss = tf.reduce_mean(outputs)
    step = v1.assign_add(v1.train.get_global_step(), 1) if mode == ModeKeys.TRAIN else None
    mae = v1.metrics.mean_absolute_error(labels, outputs)
    return EstimatorSpec(mode, outputs, loss, step, {"mae": mae, "mean": v1.metrics.mean(outputs)})


def squared(labels, predictions):
    return {"mse": v1.metrics.mean_squared_error(labels, predictions)}


def squared_and_config(features, config, predictions):
    assert config.progress == "off"
    return {"mean": v1.metrics.mean(features), "largest": v1.metrics.mean(predictions)}


@pytest.fixture
def make(tmp_path):
    def estimator(model_fn):
        return Estimator(model_fn, str(tmp_path), RunConfig(progress="off"), params=None)

    return estimator


def evaluate(linear, estimator, metric_fn):
    results = add_metrics(estimator, metric_fn).evaluate(
        lambda: tf.data.Dataset.from_tensors((linear.Y, linear.X[:, :1]))
    )
    return results, 2 * linear.Y - linear.X[:, :1]


def test_metrics_are_added(linear, make):
    results, errors = evaluate(linear, make(model_fn), squared)
    assert results["mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert results["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)


def test_towers_are_measured_over_the_whole_batch(linear, make):
    devices = ["/cpu:0", "/cpu:1", "/cpu:2"]
    results, errors = evaluate(linear, make(replicate_model_fn(model_fn, devices=devices)), squared)
    assert results["mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert results["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)


def test_keras_metrics_are_added(linear, make, mean_metric):
    def metric_fn(labels, predictions):
        return {"largest": mean_metric(labels), "mean": mean_metric(predictions)}

    estimator = make(replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"]))
    results, _ = evaluate(linear, estimator, metric_fn)
    assert results["largest"] == pytest.approx(np.mean(linear.X[:, :1]), rel=1e-5)
    assert results["mean"] == pytest.approx(np.mean(2 * linear.Y), rel=1e-5)


def test_metric_of_the_same_name_is_replaced(linear, make):
    results, _ = evaluate(linear, make(model_fn), squared_and_config)
    assert results["mean"] == pytest.approx(np.mean(linear.Y), rel=1e-5)
    assert results["largest"] == pytest.approx(np.mean(2 * linear.Y), rel=1e-5)


def test_params_model_dir_and_the_other_modes_stay(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path, params={"rate": 0.01})
    added = add_metrics(estimator, functools.partial(lambda features, config: None))
    added.train(linear.input_fn, steps=2)
    assert (added.model_dir, added.params) == (estimator.model_dir, {"rate": 0.01})
    assert estimator.get_variable_value("global_step") == 2
    assert len(list(added.predict(linear.once_input_fn))) == linear.ROWS
    assert "mae" in added.evaluate(linear.once_input_fn)


def test_wrong_metric_functions(make):
    with pytest.raises(ValueError, match=r"takes the arguments \['logits'\], but receives only"):
        add_metrics(make(model_fn), lambda logits, labels: {})
    with pytest.raises(TypeError, match="metric_fn must be a function, got 3"):
        add_metrics(make(model_fn), 3)
