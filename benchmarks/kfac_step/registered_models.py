"""Models of the K-FAC benchmarks, with their layers registered for K-FAC.

Each function builds a forward pass for a batch and returns its loss. Shared with
`benchmarks.time_to_loss`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import kfac
from benchmarks.session_programs import mean_cross_entropy
from examples import convnet_model

v1 = tf.compat.v1


def convnet_loss(images: Any, labels: Any, layers: kfac.LayerCollection | None = None) -> Any:
    """Returns the mean cross entropy of the examples' ConvNet, shape [].

    Args:
      images: [batch, height, width, channels].
      labels: Digits, [batch].
      layers: Collection to register layers and loss in, or None.
    """
    conv1, conv2, linear = convnet_model.build_model(images)
    if layers is not None:
        for conv in (conv1, conv2):
            layers.register_conv2d(
                (conv.weights, conv.bias), (1, 1, 1, 1), "SAME", conv.inputs, conv.outputs
            )
        weights = (linear.weights, linear.bias)
        layers.register_fully_connected(weights, linear.inputs, linear.outputs)
        layers.register_categorical_predictive_distribution(linear.outputs)
    return mean_cross_entropy(linear.outputs, labels)


def autoencoder_loss(
    images: Any,
    encoder: Sequence[int],
    activation: Callable[[Any], Any],
    code_activation: Callable[[Any], Any] = tf.identity,
    layers: kfac.LayerCollection | None = None,
) -> Any:
    """Returns the sigmoid cross entropy of an autoencoder, summed over pixels, mean over examples.

    Args:
      images: Intensities in [0, 1], [batch, ...], `encoder[0]` pixels each.
      encoder: Units of the encoder, from the pixels to the code. The decoder mirrors them.
      activation: Activation of the hidden layers.
      code_activation: Activation of the code layer.
      layers: Collection to register layers and loss in, or None.

    Returns:
      The loss, shape [].
    """
    targets = activations = outputs = tf.reshape(images, [-1, encoder[0]])
    for index, units in enumerate(autoencoder_units(encoder)[1:]):
        with v1.variable_scope(f"layer_{index}"):
            weight = v1.get_variable("weight", [activations.shape[1], units])
            bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
        outputs = activations @ weight + bias
        if layers is not None:
            layers.register_fully_connected((weight, bias), activations, outputs)
        is_code = index == len(encoder) - 2
        activations = code_activation(outputs) if is_code else activation(outputs)
    if layers is not None:
        layers.register_multi_bernoulli_predictive_distribution(outputs)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=outputs)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def autoencoder_units(encoder: Sequence[int]) -> tuple[int, ...]:
    """Returns the units of encoder and decoder, given those of the encoder."""
    return (*encoder, *encoder[-2::-1])
