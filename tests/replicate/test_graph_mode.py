"""Eager calls, Keras models and Keras optimizers: one sentence each that says "graph mode"."""

import pytest
import tensorflow as tf

import replicate
from replicate.errors import ArgumentTypeError
from replicate.graph_mode import check_no_keras_optimizer, is_keras_optimizer

v1 = tf.compat.v1
ADAM = v1.train.AdamOptimizer(0.1)


class OwnSGD(tf.keras.optimizers.SGD):
    pass


def model_fn(features, labels, mode):
    raise AssertionError


def call_replicated():
    replicate.replicate_model_fn(model_fn)(tf.zeros([4, 3]), tf.zeros([4, 1]), "train")


def apply_gradients():
    variable = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = variable * variable
    gradient = tape.gradient(loss, variable)
    replicate.TowerOptimizer(ADAM).apply_gradients([(gradient, variable)])


def minimize():
    variable = tf.Variable(1.0)
    replicate.TowerOptimizer(ADAM).minimize(lambda: variable * variable)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (call_replicated, r"A replicated model_fn was called with \w*Tensor features"),
        (apply_gradients, r"TowerOptimizer\.apply_gradients was called with gradients"),
        (minimize, r"TowerOptimizer\.compute_gradients was called with the loss <function"),
    ],
)
def test_eager_call_is_refused(call, given):
    with pytest.raises(ValueError, match=rf"{given}.* graph mode only: call it in a model_fn"):
        call()


@pytest.mark.parametrize("make", [replicate.Estimator, replicate.replicate_model_fn])
@pytest.mark.parametrize(
    "model",
    [
        lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]),
        lambda: tf.keras.Sequential,
        lambda: tf.keras.layers.Dense(1),
    ],
    ids=["model", "class", "layer"],
)
def test_keras_model_is_no_model_fn(make, model):
    text = rf"{make.__name__}: model_fn is the Keras .* graph mode .*model_fn\(features, labels"
    with pytest.raises(ArgumentTypeError, match=text):
        make(model())


KERAS_REFUSED = r"TowerOptimizer got the Keras optimizer .* graph mode: wrap one of tf\.compat\.v1"


def test_tower_optimizer_refuses_keras_optimizers_and_functions_that_make_them(graph):
    for given in (tf.keras.optimizers.Adam, tf.keras.optimizers.Adam(0.1)):
        with pytest.raises(TypeError, match=KERAS_REFUSED):
            replicate.TowerOptimizer(given)
    optimizer = replicate.TowerOptimizer(lambda: tf.keras.optimizers.Adam(0.1))
    with pytest.raises(TypeError, match=KERAS_REFUSED):
        optimizer.compute_gradients(v1.get_variable("w", []))


def test_keras_compile_shows_the_sentence():
    keras = pytest.importorskip("keras", minversion="3.0")
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(ValueError, match=r"a TowerOptimizer, which runs in graph mode .*compile"):
        model.compile(optimizer=replicate.TowerOptimizer(ADAM), loss="mse")


def test_captured_eager_objects_are_explained(tmp_path):
    weights = tf.Variable([[1.0]])
    data = tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1])))

    def captures(features, labels, mode):
        return features @ weights

    def input_fn():
        return tf.data.Dataset.from_tensors(([[1.0]], [[1.0]]))

    estimator = replicate.Estimator(captures, str(tmp_path))
    with pytest.raises(ValueError, match=r"model_fn uses .* graph mode.*make them inside of model"):
        estimator.train(input_fn, steps=1)
    with pytest.raises(TypeError, match=r"returned the dataset .* graph mode.*inside of input_fn"):
        estimator.train(lambda: data, steps=1)
    with pytest.raises(ValueError, match=r"input_fn uses .* graph mode.*make them inside of input"):
        estimator.train(lambda: data.map(lambda x, y: (x, y)), steps=1)


def test_optimizers_of_keras_are_recognised():
    assert is_keras_optimizer(tf.keras.optimizers.SGD(0.1))
    assert is_keras_optimizer(OwnSGD(0.1))
    assert not is_keras_optimizer(ADAM)
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    assert not is_keras_optimizer(schedule)
    check_no_keras_optimizer("test", schedule)
