"""Towers by hand: the loss and the curvature of one tower on the whole batch."""

import numpy as np
import tensorflow as tf

import kfac
import model_deploy
from examples import convnet_model
from examples.convnet_modes import multitower

v1 = tf.compat.v1
PARAMS = {"optimizer": "kfac", "learning_rate": 0.01, "momentum": 0.9, "damping": 0.1}


def build(images, labels):
    return multitower.build_tower(images, labels, PARAMS)


def test_two_towers_have_the_loss_and_gradients_of_one_model(graph, noise):
    images, labels = map(tf.constant, noise(8))
    plan = model_deploy.device_plan(["/cpu:0", "/cpu:1"])
    loss, accuracy = multitower.mean_of_towers((images, labels), plan, build)
    variables = v1.trainable_variables()
    assert len(variables) == 6
    assert {variable.device for variable in variables} == {"/device:CPU:0"}
    convolutions = [op.device for op in graph.get_operations() if op.type == "Conv2D"]
    assert sorted(convolutions) == ["/device:CPU:0"] * 2 + ["/device:CPU:1"] * 2
    layers = kfac.graph_layer_collection()
    assert set(layers.registered_variables) == set(variables)
    assert [len(towers) for towers in layers.towers_by_loss] == [2]
    with v1.variable_scope("", reuse=True):
        model = convnet_model.build_model(images)
        whole = convnet_model.mean_loss(model, labels)
        share = convnet_model.mean_accuracy(model, labels)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        ours, theirs = session.run(
            [(total, tf.gradients(total, variables)) for total in (loss, whole)]
        )
        assert len(set(session.run([accuracy, share]))) == 1
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    for mine, one in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-6)
