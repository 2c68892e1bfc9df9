"""tf.compat.v1.layers inside a replicated model_fn, batch normalization and dropout included."""

import numpy as np
import pytest
import tensorflow as tf

import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")

v1 = tf.compat.v1
Modes = tf.estimator.ModeKeys

HALF, STEPS, DECAY = 6, 3, 0.5
"""HALF rows make half a batch and come twice, so that both towers have the same statistics."""

X = np.random.default_rng(0).normal(loc=2.0, size=[HALF, 5]).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def model_fn(features, labels, mode):
    training = mode == Modes.TRAIN
    normal = v1.layers.batch_normalization(
        features, momentum=DECAY, training=training, name="normal"
    )
    hidden = v1.layers.dense(
        normal, 4, tf.nn.tanh, kernel_initializer=tf.constant_initializer(0.2), name="hidden"
    )
    hidden = v1.layers.dropout(hidden, rate=0.0, training=training)
    output = v1.layers.dense(
        hidden, 1, kernel_initializer=tf.constant_initializer(0.3), name="output"
    )
    if mode == Modes.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=output)
    loss = v1.losses.mean_squared_error(labels, output)
    optimizer = replicate.TowerOptimizer(v1.train.AdamOptimizer(0.05))
    with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(epochs=1):
    twice = (np.concatenate([X, X]), np.concatenate([Y, Y]))
    return tf.data.Dataset.from_tensor_slices(twice).repeat(epochs).batch(2 * HALF)


def train(towers, config, model_dir):
    devices = [f"/cpu:{index}" for index in range(towers)]
    estimator = tf.estimator.Estimator(
        replicate.replicate_model_fn(model_fn, devices=devices), str(model_dir), config
    )
    estimator.train(lambda: input_fn(epochs=None), steps=STEPS)
    return estimator


def test_towers_share_layers_and_batch_statistics(run_config, tmp_path):
    one, two = (train(towers, run_config, tmp_path / str(towers)) for towers in (1, 2))
    names = one.get_variable_names()
    assert two.get_variable_names() == names
    assert {"hidden/kernel", "normal/gamma", "normal/moving_mean", "output/bias"} < set(names)
    for name in names:
        np.testing.assert_allclose(
            two.get_variable_value(name), one.get_variable_value(name), atol=2e-6, err_msg=name
        )
    np.testing.assert_allclose(
        two.get_variable_value("normal/moving_mean"), (1 - DECAY**STEPS) * X.mean(0), rtol=1e-5
    )
    losses = [estimator.evaluate(input_fn)["loss"] for estimator in (two, one)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    got, expected = (list(estimator.predict(input_fn)) for estimator in (two, one))
    np.testing.assert_allclose(got, expected, rtol=1e-4)
