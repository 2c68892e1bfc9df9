"""Losses of Keras models as K-FAC registers them: kind, natural parameters, coefficient."""

import functools
import importlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.keras_model.curvature import curvature_losses
from replicate.keras_model.losses import LossTerm, loss_of_function

v1 = tf.compat.v1
LOGITS = np.array([[0.5, -1.0], [2.0, 0.1]], "f4")


@pytest.fixture(params=["keras", "keras2"])
def keras(request):
    """Keras 3, and Keras 2."""
    if request.param == "keras2":
        return request.getfixturevalue("keras2")
    return importlib.import_module("keras")


@pytest.fixture
def losses(keras):
    return keras.losses


def term(loss, output, weights=None, share=3.0):
    return LossTerm("out", loss, tf.zeros_like(output), output, weights, share)


@pytest.mark.parametrize(
    ("name", "from_logits", "activation", "kind", "coefficient"),
    [
        ("SparseCategoricalCrossentropy", True, tf.identity, "categorical", 3.0),
        ("CategoricalCrossentropy", False, tf.nn.softmax, "categorical", 3.0),
        ("BinaryCrossentropy", False, tf.nn.sigmoid, "multi_bernoulli", 1.5),
        ("MeanSquaredError", None, tf.identity, "squared_error", 1.5),
    ],
)
def test_known_losses(losses, graph, name, from_logits, activation, kind, coefficient):
    settings = {} if from_logits is None else {"from_logits": from_logits}
    logits = tf.constant(LOGITS)
    output = tf.identity(activation(logits))
    (found,) = curvature_losses([term(getattr(losses, name)(**settings), output)])
    assert (found.kind, found.coefficient, found.name) == (kind, coefficient, "out")
    with v1.Session() as session:
        np.testing.assert_array_equal(session.run(found.logits), LOGITS)
        assert session.run(found.weights) == 1.0


@pytest.mark.parametrize(
    ("name", "options", "activation", "kind"),
    [
        ("mse", {}, tf.identity, "squared_error"),
        ("sparse_categorical_crossentropy", {"from_logits": True}, tf.identity, "categorical"),
        ("categorical_crossentropy", {}, tf.nn.softmax, "categorical"),
        ("binary_crossentropy", {}, tf.nn.sigmoid, "multi_bernoulli"),
        ("sparse_categorical_crossentropy", {}, tf.identity, None),
        ("sparse_categorical_crossentropy", {"ignore_class": 0}, tf.nn.softmax, None),
        ("binary_crossentropy", {"label_smoothing": 0.1}, tf.nn.sigmoid, None),
        ("mean_absolute_error", {}, tf.identity, None),
    ],
)
def test_losses_by_name_and_function(keras, graph, evaluate, name, options, activation, kind):
    function = keras.losses.get(name)
    chosen = functools.partial(function, **options) if options else function
    output = activation(tf.constant(LOGITS))
    found = curvature_losses([term(loss_of_function(keras, chosen), output)])
    assert (found and found[0].kind) == kind
    if found:
        np.testing.assert_array_equal(evaluate(found[0].logits), LOGITS)


def test_own_function_with_the_name_of_a_known_loss_is_not_it(keras, graph):
    def mean_squared_error(labels, output):
        return tf.reduce_mean(tf.abs(labels - output), -1)

    own = term(loss_of_function(keras, mean_squared_error), tf.constant(LOGITS))
    assert curvature_losses([own]) is None


def test_weights_of_examples_are_a_column(losses, graph, evaluate):
    weighted = term(losses.MeanSquaredError(), tf.constant(LOGITS), tf.constant([1, 2]))
    (found,) = curvature_losses([weighted])
    np.testing.assert_array_equal(evaluate(found.weights), [[1.0], [2.0]])


def test_unknown_losses_make_none(losses, graph):
    known = term(losses.MeanSquaredError(), tf.constant(LOGITS))
    for loss, output in [
        (losses.Poisson(), tf.constant(LOGITS)),
        (losses.MeanSquaredError(), tf.zeros([2, 3, 4])),
        (losses.CategoricalCrossentropy(label_smoothing=0.1), tf.constant(LOGITS)),
        (losses.BinaryCrossentropy(), tf.tanh(LOGITS)),
    ]:
        assert curvature_losses([known, term(loss, output)]) is None
    assert curvature_losses([]) is None
