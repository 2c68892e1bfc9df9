"""Optimizers of the plain graphs. `test_kfac_by_hand` compares both kinds of updates."""

import pytest
import tensorflow as tf

import kfac
from examples import convnet_model
from examples.convnet_modes import kfac_updates

v1 = tf.compat.v1
PARAMS = {"learning_rate": 0.01, "momentum": 0.9, "damping": 0.1}


def losses_of(images, labels, params, steps=2):
    """Returns the loss before each step and after the last."""
    model = convnet_model.build_model(images)
    loss = convnet_model.mean_loss(model, labels)
    convnet_model.register(kfac.graph_layer_collection(), model, params)
    train_op = kfac_updates.minimize(loss, params, ["/cpu:0", "/cpu:1"])
    with v1.train.MonitoredSession() as session:
        found = [session.run([loss, train_op])[0] for _ in range(steps + 1)]
        assert session.run(v1.train.get_global_step()) == steps + 1
    return found


@pytest.mark.parametrize("updates", [pytest.param("periodic", marks=pytest.mark.broad), "by_hand"])
def test_steps_are_counted_and_reduce_the_loss(graph, noise, updates):
    batch = map(tf.constant, noise(8))
    losses = losses_of(*batch, {**PARAMS, "optimizer": "kfac", "kfac_updates": updates})
    assert losses[-1] < losses[0]
