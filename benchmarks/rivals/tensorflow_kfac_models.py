"""Models of the benchmarks in TensorFlow, with their layers registered for tensorflow/kfac.

`tensorflow_kfac_steps.py` and `tensorflow_kfac_losses.py` train these models.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def convnet_loss(
    images: Any, labels: Any, shapes: Sequence[tuple[int, ...]], layers: Any | None = None
) -> Any:
    """Returns the mean cross entropy of two convolutions with pooling and a linear layer.

    `shapes` are those of the layers' weights.
    """
    *convolutions, linear = shapes
    values = images
    for index, shape in enumerate(convolutions):
        weights, bias = _layer(index, shape)
        outputs = tf.nn.bias_add(tf.nn.conv2d(values, weights, 1, "SAME"), bias)
        if layers is not None:
            layers.register_conv2d((weights, bias), (1, 1, 1, 1), "SAME", values, outputs)
        values = tf.nn.max_pool2d(tf.nn.relu(outputs), 3, 2, "SAME")
    weights, bias = _layer(len(convolutions), linear)
    flat = tf.reshape(values, [-1, linear[0]])
    logits = flat @ weights + bias
    if layers is not None:
        layers.register_fully_connected((weights, bias), flat, logits)
        layers.register_categorical_predictive_distribution(logits)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def autoencoder_loss(
    images: Any,
    shapes: Sequence[tuple[int, ...]],
    activation: Callable[[Any], Any],
    code_activation: Callable[[Any], Any],
    layers: Any | None = None,
) -> Any:
    """Returns the sigmoid cross entropy of an autoencoder, summed over pixels, mean over examples.

    `shapes` are those of the layers' weights.
    """
    targets = values = outputs = tf.reshape(images, [-1, shapes[0][0]])
    for index, shape in enumerate(shapes):
        weights, bias = _layer(index, shape)
        outputs = values @ weights + bias
        if layers is not None:
            layers.register_fully_connected((weights, bias), values, outputs)
        is_code = index == len(shapes) // 2 - 1
        values = code_activation(outputs) if is_code else activation(outputs)
    if layers is not None:
        layers.register_multi_bernoulli_predictive_distribution(outputs)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=outputs)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def _layer(index: int, shape: Sequence[int]) -> tuple[Any, Any]:
    """Creates the variables of a layer, or reuses them."""
    with v1.variable_scope(f"layer_{index}"):
        weights = v1.get_variable("weights", shape)
        bias = v1.get_variable("bias", shape[-1:], initializer=v1.zeros_initializer())
    return weights, bias
