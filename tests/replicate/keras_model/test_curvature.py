"""Losses of Keras models as K-FAC registers them: kind, natural parameters, coefficient."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.keras_model.losses import LossTerm, curvature_losses

v1 = tf.compat.v1
LOGITS = np.array([[0.5, -1.0], [2.0, 0.1]], "f4")


@pytest.fixture(params=["keras", "keras2"])
def losses(request):
    """The losses of Keras 3, and those of Keras 2."""
    if request.param == "keras2":
        return request.getfixturevalue("keras2").losses
    return importlib.import_module("keras").losses


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


def test_weights_of_examples_are_a_column(losses, graph):
    weighted = term(losses.MeanSquaredError(), tf.constant(LOGITS), tf.constant([1, 2]))
    (found,) = curvature_losses([weighted])
    with v1.Session() as session:
        np.testing.assert_array_equal(session.run(found.weights), [[1.0], [2.0]])


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
