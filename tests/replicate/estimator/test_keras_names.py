"""Keras 3 layers in a model_fn: their names do not depend on what the process built before."""

import contextlib
import contextvars
import functools
import sys
import threading
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicate
from model_deploy.local_variables import local_variables_on
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


def variables(*dense_layers, norm=None, scope=""):
    kinds = [(dense_layers, DENSE), ([norm] if norm else [], NORM)]
    names = {f"{scope}{layer}/{name}" for group, kind in kinds for layer in group for name in kind}
    return names | {"seed_generator/seed_generator_state"}


NAMES = {
    unnamed: variables("dense", "dense_1_1", norm="batch_normalization"),
    functional: variables("dense", "dense_1_1"),
    sequential: variables("dense", "dense_1_1", norm="batch_normalization", scope="sequential/"),
    out_of_order: variables("dense", "dense_1"),
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


@pytest.mark.parametrize("net", NAMES)
def test_every_graph_has_the_names_of_a_new_process(net):
    for is_training in (True, False):
        build_other_layers()
        with tf.Graph().as_default():
            build_with_new_names(functools.partial(net, tf.constant(X), is_training))
            found = {each.op.name for each in v1.global_variables()}
        assert found == NAMES[net]


@pytest.mark.parametrize("towers", [2, pytest.param(1, marks=pytest.mark.broad)])
def test_rounds_of_train_and_evaluate_keep_the_names(plain_sessions, towers, tmp_path):
    build_other_layers()
    config = replicate.RunConfig(save_checkpoints_steps=2)
    estimator = make_estimator(unnamed, towers, str(tmp_path / "model"), config=config)
    memory = replicate.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=2)
    best = replicate.BestExporter("best", receive)
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(input_fn, max_steps=3, hooks=[memory]),
        replicate.EvalSpec(input_fn, steps=1, exporters=best, throttle_secs=0),
    )
    assert without_slots(estimator) == NAMES[unnamed]
    export = max((tmp_path / "model" / "export" / "best").iterdir())
    served = tf.saved_model.load(str(export)).signatures["serving_default"](tf.constant(X))
    (end,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(X), yield_single_examples=False)
    assert served["y"].shape == end["y"].shape

    warm = make_estimator(
        unnamed, towers, str(tmp_path / "warm"), warm_start_from=estimator.model_dir
    )
    warm.train(input_fn, steps=1)
    assert without_slots(warm) == NAMES[unnamed]


def test_layers_of_the_user_keep_their_names(graph):
    def build():
        return [layers.Dense(1).name for _ in range(3)], layers.Dropout(0.5).name

    before = layers.Dense(1).name
    assert build_with_new_names(build) == (["dense", "dense_1", "dense_2"], "dropout")
    after = layers.Dense(1).name
    assert number(after) == number(before) + 1


def number(name):
    return int(name.removeprefix("dense").removeprefix("_") or 0)


def test_thread_sees_graph_device_context_and_policy(graph):
    variable = contextvars.ContextVar("variable")
    variable.set(5)
    policy = tf.keras.config.dtype_policy()
    tf.keras.config.set_dtype_policy("mixed_float16")
    tf.keras.config.disable_traceback_filtering()
    tf.keras.config.disable_flash_attention()

    def build():
        assert threading.current_thread() is not threading.main_thread()
        assert not tf.keras.config.is_traceback_filtering_enabled()
        assert tf.keras.config.is_flash_attention_enabled() is False
        local = v1.get_variable("local", [], collections=[v1.GraphKeys.LOCAL_VARIABLES])
        return v1.get_variable("w", []), tf.constant(0), local, layers.Dense(1), variable.get()

    @contextlib.contextmanager
    def scope():
        with v1.device("/job:ps/device:CPU:3"), local_variables_on("/job:worker"):
            yield

    try:
        with scope():
            weights, constant, local, layer, value = build_with_new_names(build, scope)
    finally:
        tf.keras.config.set_dtype_policy(policy)
        tf.keras.config.enable_traceback_filtering()
        tf.keras.config.enable_flash_attention()
    assert weights.graph is graph
    assert constant.op.device == "/job:ps/device:CPU:3"
    assert local.device == "/job:worker/device:CPU:3"
    assert (layer.dtype_policy.name, value) == ("mixed_float16", 5)


def test_error_of_the_model_is_raised_as_it_is(graph):
    error = RuntimeError("of the model")

    def build():
        raise error

    with pytest.raises(RuntimeError) as caught:
        build_with_new_names(build)
    assert caught.value is error
    assert caught.traceback[-1].name == "build"


def test_no_thread_where_keras_counts_per_graph(monkeypatch):
    for version in ("2.15.0", None):
        keras2 = version and types.SimpleNamespace(__version__=version)
        monkeypatch.setitem(sys.modules, "keras", keras2)
        assert build_with_new_names(threading.current_thread) is threading.current_thread()
