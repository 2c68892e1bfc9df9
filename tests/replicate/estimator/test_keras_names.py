"""Keras 3 layers in a model_fn: their names do not depend on what the process built before."""

import contextvars
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicate
from model_deploy.local_variables import local_variables_on
from replicate.estimator import keras_names
from replicate.estimator.keras_names import build_with_new_names

v1 = tf.compat.v1
layers = tf.keras.layers

pytestmark = pytest.mark.skipif(
    int(keras.__version__.partition(".")[0]) < 3, reason="Keras 2 counts names per graph"
)

X = np.random.RandomState(0).randn(8, 3).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5]], np.float32)
DENSE = ("bias", "kernel")
NORM = ("beta", "gamma", "moving_mean", "moving_variance")


def unnamed(features, training):
    hidden = layers.Dense(4)(features)
    hidden = layers.BatchNormalization()(hidden, training=training)
    return layers.Dense(1)(layers.Dropout(0.1)(hidden, training=training))


def named(features, training):
    hidden = layers.Dense(4, name="dense_7")(features)
    hidden = layers.BatchNormalization(name="norm")(hidden, training=training)
    hidden = layers.Dropout(0.1, name="drop")(hidden, training=training)
    return layers.Dense(1, name="logits")(hidden)


def functional(features, training):
    inputs = tf.keras.Input((3,))
    hidden = layers.Dropout(0.1)(layers.Dense(4)(inputs))
    return tf.keras.Model(inputs, layers.Dense(1)(hidden))(features, training=training)


def sequential(features, training):
    parts = [layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.1), layers.Dense(1)]
    return tf.keras.Sequential(parts)(features, training=training)


def out_of_order(features, training):
    """Builds the second layer before the first; the names follow the order of construction."""
    last, first, _ = layers.Dense(1), layers.Dense(4), layers.Dense(9)
    noise = tf.keras.random.normal((4,), stddev=1e-3)  # Keras's global seed generator.
    return last(first(features) + (noise if training else 0.0))


def variables(**parts):
    return {f"{layer}/{name}" for layer, names in parts.items() for name in names}


SEED = {"seed_generator": ["seed_generator_state"]}
NAMES = {
    unnamed: variables(dense=DENSE, dense_1=DENSE, batch_normalization=NORM, **SEED),
    named: variables(dense_7=DENSE, logits=DENSE, norm=NORM, **SEED),
    functional: variables(dense=DENSE, dense_1=DENSE, **SEED),
    sequential: {
        f"sequential/{name}"
        for name in variables(dense=DENSE, dense_1=DENSE, batch_normalization=NORM)
    }
    | variables(**SEED),
    out_of_order: variables(dense=DENSE, dense_1=DENSE, **SEED),
}
"""Model → names of its variables in a process that builds nothing else."""


def make_estimator(net, towers, model_dir, **arguments):
    def model_fn(features, labels, mode):
        training = mode == replicate.ModeKeys.TRAIN
        outputs = net(features, training)
        if mode == replicate.ModeKeys.PREDICT:
            return replicate.EstimatorSpec(mode, predictions={"y": outputs})
        loss = tf.reduce_mean(tf.square(outputs - labels))
        optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(0.05, 0.9))
        train_op = optimizer.minimize(loss, v1.train.get_global_step()) if training else None
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    devices = [f"/device:CPU:{index}" for index in range(towers)]
    replicated = replicate.replicate_model_fn(model_fn, devices=devices)
    return replicate.Estimator(replicated, model_dir, **arguments)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat(4).batch(4)


def receive():
    features = v1.placeholder(tf.float32, [None, 3])
    return replicate.export.TensorServingInputReceiver(features, features)


def build_other_layers():
    """Builds what a user may build beside: an eager model with a seed generator of its own."""
    model = tf.keras.Sequential([layers.Dense(2), layers.Dropout(0.5), layers.Dense(2)])
    return model(tf.constant(X), training=True)


def without_slots(estimator):
    names = set(estimator.get_variable_names()) - {"global_step"}
    slots = {name for name in names if name.endswith("/Momentum")}
    assert slots == {f"{name}/Momentum" for name in names if name.endswith((*DENSE, *NORM[:2]))}
    return names - slots


@pytest.mark.parametrize(
    ("net", "towers"), [*((net, 1) for net in NAMES), (unnamed, 2), (named, 2), (sequential, 2)]
)
def test_every_graph_has_the_names_of_a_new_process(net, towers, tmp_path):
    build_other_layers()
    estimator = make_estimator(net, towers, str(tmp_path / "model"))
    estimator.train(input_fn, steps=2)
    assert without_slots(estimator) == NAMES[net]
    build_other_layers()
    estimator.train(input_fn, steps=1)
    assert estimator.evaluate(input_fn, steps=1)["global_step"] == 3
    assert len(list(estimator.predict(lambda: tf.data.Dataset.from_tensors(X)))) == 8

    warm = make_estimator(
        net, towers, str(tmp_path / "warm"), warm_start_from=estimator.model_dir
    )
    warm.train(input_fn, steps=1)
    assert without_slots(warm) == NAMES[net]


@pytest.mark.parametrize("towers", [1, 2])
def test_rounds_of_train_and_evaluate_keep_the_names(towers, tmp_path):
    build_other_layers()
    config = replicate.RunConfig(save_checkpoints_steps=2)
    estimator = make_estimator(unnamed, towers, str(tmp_path), config=config)
    stop = replicate.stop_if_no_decrease_hook(estimator, "loss", 1000, run_every_secs=None,
                                              run_every_steps=1)
    memory = replicate.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=2)
    best = replicate.BestExporter("best", receive)
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(input_fn, max_steps=4, hooks=[stop, memory]),
        replicate.EvalSpec(input_fn, steps=1, exporters=best, throttle_secs=0),
    )
    assert without_slots(estimator) == NAMES[unnamed]
    (export,) = list((tmp_path / "export" / "best").iterdir())[-1:]
    served = tf.saved_model.load(str(export)).signatures["serving_default"](tf.constant(X))
    (predicted,) = [each["y"] for each in [next(iter_batch(estimator))]]
    np.testing.assert_allclose(served["y"].numpy().shape, predicted.shape)


def iter_batch(estimator):
    return estimator.predict(
        lambda: tf.data.Dataset.from_tensors(X), yield_single_examples=False
    )
