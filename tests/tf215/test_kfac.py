"""K-FAC as the wrapped optimizer, trained by the stock tf.estimator.Estimator."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1

BATCH, STEPS = 12, 10

_random = np.random.default_rng(0)
X = _random.normal(size=[BATCH, 5]).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)


def optimizer():
    return kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.1,
        damping=0.1,
        layer_collection=kfac.graph_layer_collection(),
        momentum=0.9,
        estimation_mode="empirical",
    )


def model_fn(features, labels, mode):
    weights = v1.get_variable("weights", [5, 3], initializer=v1.zeros_initializer())
    bias = v1.get_variable("bias", [3], initializer=v1.zeros_initializer())
    logits = features @ weights + bias
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        layers = kfac.graph_layer_collection()
        layers.register_fully_connected((weights, bias), features, logits)
        layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
        train_op = replicate.TowerOptimizer(optimizer).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(epochs=1):
    return tf.data.Dataset.from_tensors((X, Y)).repeat(epochs)


def train(towers, config, model_dir):
    replicated = replicate.replicate_model_fn(
        model_fn, devices=[f"/cpu:{index}" for index in range(towers)]
    )
    estimator = tf.estimator.Estimator(replicated, str(model_dir), config)
    estimator.train(lambda: input_fn(epochs=None), steps=STEPS)
    return estimator


def test_kfac_trains_on_two_towers_as_on_one(run_config, tmp_path):
    one, two = (train(towers, run_config, tmp_path / str(towers)) for towers in (1, 2))
    assert two.get_variable_names() == one.get_variable_names()
    for name in ("weights", "bias"):
        got, expected = two.get_variable_value(name), one.get_variable_value(name)
        np.testing.assert_allclose(got, expected, atol=2e-6 * np.abs(expected).max(), err_msg=name)
    assert two.evaluate(input_fn)["loss"] < 0.7 * np.log(3)
