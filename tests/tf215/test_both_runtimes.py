"""replicate.Estimator works on this TensorFlow too, and shares a model_dir with tf.estimator's."""

import numpy as np
import pytest
import tensorflow as tf

import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1

ROWS, STEPS, RATE = 6, 4, 0.1

X = np.random.default_rng(0).normal(size=[ROWS, 3]).astype(np.float32)
Y = X.sum(axis=1, keepdims=True) + 1


def make_model_fn(spec_type):
    """Least squares with momentum, returned in a spec of the given type."""

    def model_fn(features, labels, mode):
        weights = v1.get_variable("weights", [3, 1], initializer=v1.zeros_initializer())
        predictions = features @ weights
        loss = train_op = metrics = None
        if labels is not None:
            loss = v1.losses.mean_squared_error(labels, predictions)
            metrics = {"mae": v1.metrics.mean_absolute_error(labels, predictions)}
        if mode == replicate.ModeKeys.TRAIN:
            optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(RATE, 0.9))
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return spec_type(
            mode, predictions=predictions, loss=loss, train_op=train_op, eval_metric_ops=metrics
        )

    return replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])


def input_fn(epochs=1):
    return tf.data.Dataset.from_tensors((X, Y)).repeat(epochs)


def trained_by_numpy(steps):
    weights = momentum = np.zeros([3, 1])
    for _ in range(steps):
        momentum = 0.9 * momentum + 2 / ROWS * X.T @ (X @ weights - Y)
        weights = weights - RATE * momentum
    return weights


@pytest.mark.parametrize("stock_first", [True, False])
def test_one_estimator_continues_what_the_other_began(run_config, tmp_path, stock_first):
    ours = replicate.Estimator(make_model_fn(replicate.EstimatorSpec), str(tmp_path))
    stock = tf.estimator.Estimator(
        make_model_fn(tf.estimator.EstimatorSpec), str(tmp_path), run_config
    )
    for estimator in (stock, ours) if stock_first else (ours, stock):
        estimator.train(lambda: input_fn(epochs=None), steps=STEPS)
    predicted = X @ trained_by_numpy(2 * STEPS)
    for estimator in (ours, stock):
        results = estimator.evaluate(input_fn)
        assert results["global_step"] == 2 * STEPS
        np.testing.assert_allclose(results["mae"], np.abs(predicted - Y).mean(), rtol=1e-5)
        np.testing.assert_allclose(results["loss"], np.mean((predicted - Y) ** 2), rtol=1e-5)
        np.testing.assert_allclose(list(estimator.predict(input_fn)), predicted, rtol=1e-4)
