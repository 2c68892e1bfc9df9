"""CifarNet's shapes and parameters, and its normalization."""

import numpy as np
import tensorflow as tf

from examples.slim.networks import cifarnet

v1 = tf.compat.v1


def test_shapes_and_parameters_for_cifar(build):
    network = build("cifarnet", 32, 3, 10)
    assert network.network_fn.default_image_size == 32
    assert network.shapes == {
        "conv1": (32, 32, 64),
        "pool1": (16, 16, 64),
        "norm1": (16, 16, 64),
        "conv2": (16, 16, 64),
        "norm2": (16, 16, 64),
        "pool2": (8, 8, 64),
        "fc3": (384,),
        "fc4": (192,),
        "PreLogits": (192,),
        "Logits": (10,),
        "Predictions": (10,),
    }
    convolutions = (5 * 5 * 3 + 1) * 64 + (5 * 5 * 64 + 1) * 64
    dense = (8 * 8 * 64 + 1) * 384 + (384 + 1) * 192 + (192 + 1) * 10
    assert network.parameters == convolutions + dense == 1_756_426


def test_normalization_matches_tensorflow_and_has_a_second_derivative(graph):
    values = np.random.RandomState(0).randn(2, 3, 3, 7).astype(np.float32) * 30
    inputs = tf.constant(values)
    ours = cifarnet.local_response_normalization(inputs)
    theirs = tf.nn.lrn(inputs, depth_radius=2, bias=2.0, alpha=1e-4, beta=0.75)
    (first,) = tf.gradients(ours, inputs)
    (second,) = tf.gradients(first, inputs)
    with v1.Session() as session:
        results = session.run([ours, theirs, first, tf.gradients(theirs, inputs)[0], second])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    np.testing.assert_allclose(results[2], results[3], rtol=1e-4, atol=1e-5)
    assert np.abs(results[4]).max() > 0
