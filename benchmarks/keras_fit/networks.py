"""The networks of the benchmark: a perceptron on pixels, and two small networks for images."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

CLASSES = 10
UNITS = (128, 128)
"""Units of the perceptron's hidden layers."""
CHANNELS = (8, 16, 32)
"""Channels of the residual network's stages."""
BLOCKS = 3
"""Blocks of each stage: with three the network has 20 layers, as ResNet-20."""
PATCH, WIDTH, HEADS, DEPTH = 7, 64, 4, 2
"""Pixels of a patch's side, width, heads and blocks of the transformer."""


def perceptron(shape: Sequence[int]) -> Any:
    """Returns a perceptron with tanh units; `shape` is that of the images, as of all networks."""
    hidden = [keras.layers.Dense(units, activation="tanh") for units in UNITS]
    flat = [keras.layers.Input(shape), keras.layers.Flatten()]
    return keras.Sequential([*flat, *hidden, keras.layers.Dense(CLASSES)])


def vit(shape: Sequence[int]) -> Any:
    """Returns a vision transformer: patches, learnt places, blocks, the mean over the places."""
    k = keras.layers
    images = k.Input(shape)
    patch = min(PATCH, shape[0] // 2)
    x = k.Conv2D(WIDTH, patch, strides=patch)(images)
    places = x.shape[1] * x.shape[2]
    x = k.Reshape((places, WIDTH))(x)
    x = x + k.Embedding(places, WIDTH)(keras.ops.arange(places))
    for _ in range(DEPTH):
        y = k.LayerNormalization()(x)
        x = x + k.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, y)
        y = k.Dense(2 * WIDTH, activation="gelu")(k.LayerNormalization()(x))
        x = x + k.Dense(WIDTH)(y)
    pooled = k.GlobalAveragePooling1D()(k.LayerNormalization()(x))
    return keras.Model(images, k.Dense(CLASSES)(pooled))


def resnet(shape: Sequence[int]) -> Any:
    """Returns a residual network of 20 layers with batch normalization."""
    images = keras.layers.Input(shape)
    x = _normalized(images, CHANNELS[0], 1)
    for stage, channels in enumerate(CHANNELS):
        for block in range(BLOCKS):
            strides = 2 if stage and not block else 1
            y = _normalized(x, channels, strides)
            y = _normalized(y, channels, 1, activation=None)
            if x.shape != y.shape:
                x = keras.layers.Conv2D(channels, 1, strides=strides, use_bias=False)(x)
            x = keras.layers.Activation("relu")(x + y)
    pooled = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(images, keras.layers.Dense(CLASSES)(pooled))


def _normalized(x: Any, channels: int, strides: int, activation: str | None = "relu") -> Any:
    x = keras.layers.Conv2D(channels, 3, strides=strides, padding="same", use_bias=False)(x)
    return keras.layers.Activation(activation)(keras.layers.BatchNormalization(momentum=0.9)(x))


NETWORKS: Mapping[str, Callable[[Sequence[int]], Any]] = {
    "perceptron": perceptron,
    "vit": vit,
    "resnet": resnet,
}
"""Functions of the shape of an image, by name. All return a model whose outputs are logits."""
