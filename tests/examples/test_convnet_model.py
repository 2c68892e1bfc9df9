"""The network's shapes and arithmetic, its optimizers, and one step of it on two towers."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from examples import convnet_model

v1 = tf.compat.v1
PARAMS = {"learning_rate": 0.1, "momentum": 0.5, "damping": 0.25}


@pytest.mark.parametrize(("side", "features"), [(8, 2 * 2 * 16), (28, 7 * 7 * 16)])
def test_layers_have_the_shapes_of_the_tutorials(graph, side, features):
    model = convnet_model.build_model(tf.zeros([3, side, side, 1]))
    shapes = [[5, 5, 1, 16], [5, 5, 16, 16], [features, 10]]
    assert [layer.weights.shape.as_list() for layer in model] == shapes
    outputs = [[3, side, side, 16], [3, side // 2, side // 2, 16], [3, 10]]
    assert [layer.outputs.shape.as_list() for layer in model] == outputs
    assert len(v1.trainable_variables()) == 6


def test_layers_match_numpy(graph):
    random = np.random.RandomState(0)
    inputs, images = random.randn(4, 3), random.randn(1, 5, 5, 1)
    linear = convnet_model.linear_layer("linear", tf.constant(inputs, tf.float32), 2)
    conv = convnet_model.conv_layer("conv", tf.constant(images, tf.float32), 3, 2)
    square = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run([linear.bias.assign([1.0, -1.0]), conv.bias.assign([0.5, 0.25])])
        weights, outputs = session.run([linear.weights, linear.outputs])
        filters, filtered = session.run([conv.weights, conv.outputs])
        pooled = session.run(convnet_model.max_pool_layer(tf.constant(square)))
    np.testing.assert_allclose(outputs, inputs @ weights + [1.0, -1.0], rtol=1e-5)
    window = images[0, 1:4, 2:5, 0]  # around row 2, column 3
    expected = np.einsum("ij,ijc->c", window, filters[:, :, 0]) + np.array([0.5, 0.25])
    np.testing.assert_allclose(filtered[0, 2, 3], expected, rtol=1e-5)
    np.testing.assert_array_equal(pooled[0, :, :, 0], [[10, 11], [14, 15]])


def test_evaluation_and_prediction_need_no_optimizer(graph):
    images = tf.zeros([4, 8, 8, 1])
    labels = tf.constant([1, 2, 3, 4])
    spec = convnet_model.model_fn(images, labels, replicate.ModeKeys.EVAL, {})
    assert set(spec.eval_metric_ops) == {"accuracy"}
    with v1.variable_scope("", reuse=True):
        spec = convnet_model.model_fn(images, None, replicate.ModeKeys.PREDICT, {})
    assert spec.predictions["class"].shape.as_list() == [4]
    assert spec.predictions["probabilities"].shape.as_list() == [4, 10]


# Of a rate of 0.01**0.75 = 0.032; the norm constraint shortens the first step of kfac.
CHANGES = [("kfac", 0.5), ("momentum", 0.064), ("adam", 0.064)]


@pytest.mark.parametrize(("optimizer", "most"), CHANGES)
def test_rate_and_damping_fall_to_their_final_values(graph, noise, optimizer, most):
    step = v1.train.get_or_create_global_step()
    final = {"final_learning_rate": 0.001, "final_damping": 0.0025, "decay_steps": 4}
    params = {**PARAMS, **final, "optimizer": optimizer}
    found = [convnet_model.falling(params, name)() for name in ("learning_rate", "damping")]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        values = []
        for _ in range(6):
            values.append(session.run(found))
            session.run(step.assign_add(1))
    shares = np.minimum(np.arange(6) / 4, 1)
    np.testing.assert_allclose(values, np.outer(0.01**shares, [0.1, 0.25]), rtol=1e-5)

    batch = map(tf.constant, noise(4))
    params["final_damping"] = None
    spec = convnet_model.model_fn(*batch, replicate.ModeKeys.TRAIN, params)
    bias, changes = v1.trainable_variables()[-1], []  # It is zero at first.
    with v1.Session() as session:
        for at in (0, 3):
            session.run(v1.global_variables_initializer())
            session.run(step.assign(at))
            session.run(spec.train_op)
            changes.append(np.abs(session.run(bias)).max())
    assert 0.016 < changes[1] / changes[0] < most
