"""Variables of Keras 3 in a model_fn: optimizers take them, and frozen layers stand still."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

import replicate

kfac = importlib.import_module("kfac")
pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
_RANDOM = np.random.RandomState(0)
X = _RANDOM.randn(16, 6).astype("f4")
Y = _RANDOM.randn(16, 2).astype("f4")
START = {"a/kernel": np.full([6, 4], 0.1), "b/kernel": np.full([4, 2], 0.2)}


@pytest.fixture(scope="module")
def keras():
    """The module of Keras 3."""
    module = importlib.import_module("keras")
    if module.__version__ < "3":
        pytest.skip("Keras 3 is not installed")
    return module


def optimizer_of(kind, output):
    if kind == "plain":
        return v1.train.GradientDescentOptimizer(0.1)
    if kind == "towers":
        return replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
    layers = kfac.graph_layer_collection()
    layers.register_squared_error_loss(output, name="loss")
    layers.auto_register_layers()
    return replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            learning_rate=0.1, damping=0.1, layer_collection=layers, invert_every=1
        )
    )


def moved(keras, kind, freeze, train, tmp_path):
    """Trains one step; returns the names of the kernels that have changed."""

    def model_fn(features, labels, mode):
        a = keras.layers.Dense(
            4, "tanh", name="a", kernel_initializer=keras.initializers.Constant(0.1)
        )
        b = keras.layers.Dense(2, name="b", kernel_initializer=keras.initializers.Constant(0.2))
        a.trainable = freeze != "before"
        output = b(a(features))
        a.trainable = not freeze
        loss = tf.reduce_mean(tf.square(output - labels))
        chosen = [*a.trainable_variables, *b.trainable_variables]
        train_op = train(optimizer_of(kind, output), loss, chosen)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    if kind != "plain":
        model_fn = replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])
    estimator = replicate.Estimator(model_fn, tmp_path, replicate.RunConfig(progress="off"))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(16))
    return [
        name
        for name, start in START.items()
        if np.abs(estimator.get_variable_value(name) - start).max() > 1e-5
    ]


def minimize(optimizer, loss, variables):
    return optimizer.minimize(loss, v1.train.get_global_step())


def minimize_given(optimizer, loss, variables):
    return optimizer.minimize(loss, v1.train.get_global_step(), var_list=variables)


def compute_and_apply(optimizer, loss, variables):
    pairs = optimizer.compute_gradients(loss, variables)
    return optimizer.apply_gradients(pairs, v1.train.get_global_step())


def gradients(optimizer, loss, variables):
    pairs = zip(v1.gradients(loss, variables), variables, strict=True)
    return optimizer.apply_gradients(pairs, v1.train.get_global_step())


@pytest.mark.parametrize(
    ("kind", "freeze", "train"),
    [
        ("plain", None, minimize_given),
        ("plain", "before", minimize),
        ("plain", "after", gradients),
        ("towers", None, compute_and_apply),
        ("towers", "before", minimize_given),
        ("towers", "after", minimize),
        ("towers", None, gradients),
        ("kfac", None, minimize_given),
        ("kfac", "after", minimize),
    ],
)
def test_chosen_variables_train_and_frozen_layers_stand_still(keras, tmp_path, kind, freeze, train):
    expected = ["b/kernel"] if freeze else ["a/kernel", "b/kernel"]
    assert moved(keras, kind, freeze, train, tmp_path) == expected


def test_layers_outside_of_model_fns_are_as_before(keras, graph):
    layer = keras.layers.Dense(2)
    layer(tf.zeros([1, 2]))
    layer.trainable = False
    assert len(v1.trainable_variables()) == 2
