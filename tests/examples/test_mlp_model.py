"""The perceptron's arithmetic, and one step of its model_fn on two towers and on one."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from examples import mlp_model

v1 = tf.compat.v1
PARAMS = {"learning_rate": 0.1, "momentum": 0.5, "damping": 0.25}


def batch(rows=8):
    random = np.random.RandomState(0)
    images = random.rand(rows, 8, 8, 1).astype(np.float32)
    return images, random.randint(0, 10, rows).astype(np.int32)


def test_layers_compute_what_they_say(graph):
    images, _ = batch(3)
    model = mlp_model.build_model(tf.constant(images))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        params = session.run([layer.params for layer in model])
        logits = session.run(model[-1].outputs)
    activations = images.reshape(3, 64)
    for weights, bias in params[:-1]:
        activations = np.tanh(activations @ weights + bias)
    weights, bias = params[-1]
    np.testing.assert_allclose(logits, activations @ weights + bias, rtol=1e-4, atol=1e-6)
    assert [weights.shape for weights, _ in params] == [(64, 64), (64, 32), (32, 10)]


def test_predict_takes_the_largest_logit(graph):
    images = tf.constant(batch()[0])
    digits = mlp_model.predict(images)
    with v1.variable_scope("", reuse=True):
        logits = mlp_model.build_model(images)[-1].outputs
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        found, expected = session.run([digits, logits])
    np.testing.assert_array_equal(found, expected.argmax(axis=1))


def test_register_gives_every_parameter_a_kronecker_block(graph):
    layers = kfac.LayerCollection()
    mlp_model.register(layers, mlp_model.build_model(tf.constant(batch()[0])))
    assert set(layers.registered_variables) == set(v1.trainable_variables())
    assert all(note.startswith("kron") for note in layers.describe().values())


def test_two_towers_see_the_loss_and_the_gradients_of_one():
    check = replicate.check_replication(
        mlp_model.model_fn,
        lambda: tf.data.Dataset.from_tensors(batch()),
        devices=["/cpu:0", "/cpu:1"],
        params=PARAMS,
        loss_reduction=v1.losses.Reduction.MEAN,
        output=None,
    )
    assert check.loss.relative < 1e-5
    assert max(gradient.relative for gradient in check.gradients) < 1e-4


@pytest.mark.parametrize("mode", [replicate.ModeKeys.EVAL, replicate.ModeKeys.PREDICT])
def test_evaluation_and_prediction_need_no_optimizer(graph, mode):
    images, labels = map(tf.constant, batch())
    spec = mlp_model.model_fn(images, labels, mode, {})
    assert spec.train_op is None
    assert kfac.graph_layer_collection().registered_variables == ()
