"""The recurrent network against NumPy, and steps on two towers."""

import numpy as np
import tensorflow as tf

import kfac
import replicate
from examples import rnn

v1 = tf.compat.v1
IMAGES = np.random.RandomState(0).rand(6, 3, 4, 1).astype(np.float32)
LABELS = np.arange(6, dtype=np.int32)
PARAMS = {"learning_rate": 0.05, "momentum": 0.0, "damping": 0.1, "approx": "kron_indep"}


def test_logits_are_those_of_the_recurrence(graph, evaluate):
    logits = rnn.logits_of(tf.constant(IMAGES), "kron_indep")
    found, (w, b, v, c) = evaluate([logits, v1.trainable_variables()])
    state = np.zeros([6, rnn.UNITS])
    for row in range(3):
        state = np.tanh(np.concatenate([IMAGES[:, row, :, 0], state], axis=1) @ w + b)
    np.testing.assert_allclose(found, state @ v + c, rtol=1e-4, atol=1e-5)


# `test_programs.py` runs the program with kron_series_2.
def test_two_towers_train_with_independent_steps(graph):
    v1.set_random_seed(0)
    v1.train.get_or_create_global_step()
    model_fn = replicate.replicate_model_fn(
        rnn.model_fn, loss_reduction=v1.losses.Reduction.MEAN, devices=["/cpu:0", "/cpu:1"]
    )
    spec = model_fn(tf.constant(IMAGES), tf.constant(LABELS), replicate.ModeKeys.TRAIN, PARAMS)
    layers = kfac.graph_layer_collection()
    assert set(layers.registered_variables) == set(v1.trainable_variables())
    with v1.train.MonitoredSession() as session:
        losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(5)]
    assert losses[-1] < losses[0]
