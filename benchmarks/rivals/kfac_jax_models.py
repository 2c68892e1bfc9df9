"""Models of the benchmarks in JAX, with their losses registered for kfac-jax.

Parameters are a list of (weights, bias) by layer. kfac-jax finds the layers by itself.
`kfac_jax_steps.py` and `kfac_jax_losses.py` train these models.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import kfac_jax
import optax


def parameters(start: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Returns copies of (weights, bias) of each layer, from [weights, bias, weights, ...]."""
    pairs = zip(start[::2], start[1::2], strict=True)
    return [(jnp.array(weights), jnp.array(bias)) for weights, bias in pairs]


def convnet_loss(layers: Sequence[tuple[Any, Any]], batch: tuple[Any, Any]) -> Any:
    """Returns the mean cross entropy of two convolutions with pooling and a linear layer.

    A batch is images [batch, height, width, 1] and digits [batch].
    """
    values, labels = batch
    *convolutions, (weights, bias) = layers
    for filters, shift in convolutions:
        outputs = jax.lax.conv_general_dilated(
            values, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
        values = jax.lax.reduce_window(
            jax.nn.relu(outputs + shift), -jnp.inf, jax.lax.max, window, strides, "SAME"
        )
    logits = values.reshape(len(values), -1) @ weights + bias
    kfac_jax.register_softmax_cross_entropy_loss(logits, labels)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def autoencoder_loss(
    activation: Callable[[Any], Any],
    code_activation: Callable[[Any], Any],
    layers: Sequence[tuple[Any, Any]],
    batch: tuple[Any, Any],
) -> Any:
    """Returns the sigmoid cross entropy of an autoencoder, summed over pixels, mean over examples.

    A batch is images [batch, height, width, 1] and unused labels. The code is the middle layer.
    """
    targets = values = outputs = batch[0].reshape(len(batch[0]), -1)
    for index, (weights, bias) in enumerate(layers):
        outputs = values @ weights + bias
        is_code = index == len(layers) // 2 - 1
        values = code_activation(outputs) if is_code else activation(outputs)
    kfac_jax.register_multi_bernoulli_predictive_distribution(outputs, targets)
    return optax.sigmoid_binary_cross_entropy(outputs, targets).sum(axis=1).mean()
