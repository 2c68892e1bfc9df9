"""K-FAC that is refreshed by threads, inside an Estimator and over two towers."""

import threading

import numpy as np
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

BATCH, STEPS = 12, 20

_random = np.random.default_rng(0)
X = _random.normal(size=[BATCH, 5]).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)


def make_optimizer():
    return kfac.AsyncInvCovUpdateKfacOpt(
        learning_rate=0.1,
        damping=0.1,
        layer_collection=kfac.graph_layer_collection(),
        estimation_mode="empirical",
    )


def model_fn(features, labels, mode):
    weights = v1.get_variable("weights", [5, 3], initializer=v1.zeros_initializer())
    logits = features @ weights
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    if mode == replicate.ModeKeys.EVAL:
        return replicate.EstimatorSpec(mode, loss=loss)
    layers = kfac.graph_layer_collection()
    layers.register_fully_connected(weights, features, logits)
    layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    optimizer = replicate.TowerOptimizer(make_optimizer)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    hook = kfac.AsyncUpdateHook(lambda: optimizer.wrapped)
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def input_fn():
    return tf.data.Dataset.from_tensors((X, Y)).repeat()


def test_estimator_trains_two_towers_with_updates_in_the_background(tmp_path):
    devices = ["/cpu:0", "/cpu:1"]
    replicated = replicate.replicate_model_fn(model_fn, devices=devices)
    estimator = replicate.Estimator(replicated, str(tmp_path))
    estimator.train(input_fn, steps=STEPS)
    names = {thread.name for thread in threading.enumerate()}
    assert not any(name.startswith("kfac_update") for name in names)
    found = estimator.evaluate(input_fn, steps=1)
    assert found["global_step"] == STEPS
    assert found["loss"] < 0.7 * np.log(3)
    assert estimator.get_variable_value("kfac/weights/input/inverse").any()
