"""Models as functions of their parameters, with a batch of data, for the benchmarks of towers.

Each way of training makes the variables as it does and hands them over, so that all compute the
same.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from examples.slim.networks import factory

Parameters: TypeAlias = Mapping[str, Any]


class Model:
    """A model: its parameters at the start, a batch of data, and its loss.

    Attributes:
      parameters: Initial values, by name.
      batch: Features and labels, arrays of equal first dimension.
    """

    parameters: Mapping[str, np.ndarray]
    batch: tuple[np.ndarray, np.ndarray]

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean loss over some examples, shape []."""
        raise NotImplementedError


class ConvNet(Model):
    """Two convolutions 5×5×16 with pooling, and a linear layer: the ConvNet of the examples."""

    def __init__(self, side: int, batch_size: int) -> None:
        """Takes the side of the images in pixels, a multiple of 4, and the size of the batch."""
        self._features = (side // 4) ** 2 * 16
        self.parameters = {
            **_layer("conv1", 5, 5, 1, 16),
            **_layer("conv2", 5, 5, 16, 16),
            **_layer("linear", self._features, 10),
        }
        self.batch = (_uniform(batch_size, side, side, 1), _labels(batch_size))

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy."""
        for name in ("conv1", "conv2"):
            outputs = tf.nn.conv2d(features, parameters[f"{name}/weights"], 1, "SAME")
            outputs = tf.nn.relu(tf.nn.bias_add(outputs, parameters[f"{name}/bias"]))
            features = tf.nn.max_pool2d(outputs, 3, 2, "SAME")
        flat = tf.reshape(features, [-1, self._features])
        return _cross_entropy(parameters, "linear", flat, labels)


class Mlp(Model):
    """784-256-128-10 with rectifiers."""

    def __init__(self, batch_size: int) -> None:
        """Takes the size of the batch."""
        self.parameters = {
            **_layer("hidden1", 784, 256),
            **_layer("hidden2", 256, 128),
            **_layer("linear", 128, 10),
        }
        self.batch = (_uniform(batch_size, 784), _labels(batch_size))

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy."""
        for name in ("hidden1", "hidden2"):
            outputs = features @ parameters[f"{name}/weights"] + parameters[f"{name}/bias"]
            features = tf.nn.relu(outputs)
        return _cross_entropy(parameters, "linear", features, labels)


class Embedding(Model):
    """The mean of an example's embeddings and a linear layer; gradients of the table are sparse."""

    def __init__(self, rows: int, width: int, words: int, batch_size: int) -> None:
        """Takes the size of the table, the words in an example, and the size of the batch."""
        self.parameters = {"table": _uniform(rows, width) - 0.5, **_layer("linear", width, 10)}
        ids = np.random.default_rng(0).integers(rows, size=[batch_size, words], dtype=np.int32)
        self.batch = (ids, _labels(batch_size))

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy."""
        vectors = tf.nn.embedding_lookup(parameters["table"], features)
        return _cross_entropy(parameters, "linear", tf.reduce_mean(vectors, axis=1), labels)


class Network(Model):
    """A network of the image classifier, with batch normalization and weight decay.

    It makes its variables itself, so only ways to train that use `get_variable` can train it.
    """

    def __init__(self, name: str, side: int, batch_size: int) -> None:
        """Takes a name of `examples.slim.networks`, the side of an image, and the batch size."""
        self._network = factory.get_network_fn(name, 10, weight_decay=1e-4, is_training=True)
        self.parameters = {}
        self.batch = (_uniform(batch_size, side, side, 3), _labels(batch_size))

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy."""
        del parameters
        logits, _ = self._network(features)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(losses)


def _layer(name: str, *shape: int) -> dict[str, np.ndarray]:
    """Weights of variance 1 / inputs, and biases that are 0."""
    inputs = np.prod(shape[:-1])
    weights = np.random.default_rng(0).normal(0.0, inputs**-0.5, shape).astype(np.float32)
    return {f"{name}/weights": weights, f"{name}/bias": np.zeros(shape[-1:], np.float32)}


def _cross_entropy(parameters: Parameters, layer: str, features: Any, labels: Any) -> Any:
    logits = features @ parameters[f"{layer}/weights"] + parameters[f"{layer}/bias"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def _uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def _labels(count: int) -> np.ndarray:
    return (np.arange(count) % 10).astype(np.int32)
