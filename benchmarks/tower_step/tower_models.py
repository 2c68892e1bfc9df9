"""Models of the tower benchmarks, as functions of their parameters, each with a batch of data.

Each way of training creates the variables itself and passes them to `Model.loss`, so all ways
compute the same loss.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from benchmarks.session_programs import mean_cross_entropy
from examples.slim.networks import factory

Parameters: TypeAlias = Mapping[str, Any]


class Model:
    """Model with initial parameters, a batch of data, and a loss.

    Attributes:
      parameters: Initial values by name.
      batch: Features and labels, [batch, ...] each.
    """

    parameters: Mapping[str, np.ndarray]
    batch: tuple[np.ndarray, np.ndarray]

    def logits(self, parameters: Parameters, features: Any) -> Any:
        """Returns the logits of the classes, [batch, classes]."""
        raise NotImplementedError

    def loss(self, parameters: Parameters, features: Any, labels: Any) -> Any:
        """Returns the mean cross entropy of the examples, shape []."""
        return mean_cross_entropy(self.logits(parameters, features), labels)


class ConvNet(Model):
    """Two convolutions with pooling and a linear layer; by default the examples' ConvNet."""

    def __init__(
        self,
        side: int,
        batch_size: int,
        size: int = 5,
        channels: tuple[int, int] = (16, 16),
        activation: Callable[[Any], Any] = tf.nn.relu,
        pool: Callable[[Any], Any] = lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
    ) -> None:
        """Takes side and number of the images, size and channels of the filters, and functions."""
        self._activation, self._pool = activation, pool
        self._features = (side // 4) ** 2 * channels[1]
        self.parameters = {
            **initial_layer("conv1", size, size, 1, channels[0]),
            **initial_layer("conv2", size, size, *channels),
            **initial_layer("linear", self._features, 10),
        }
        self.batch = (_uniform(batch_size, side, side, 1), _labels(batch_size))

    def logits(self, parameters: Parameters, features: Any) -> Any:
        """Returns the logits, [batch, 10]."""
        for name in ("conv1", "conv2"):
            outputs = tf.nn.conv2d(features, parameters[f"{name}/weights"], 1, "SAME")
            outputs = tf.nn.bias_add(outputs, parameters[f"{name}/bias"])
            features = self._pool(self._activation(outputs))
        return linear(parameters, "linear", tf.reshape(features, [-1, self._features]))


class Mlp(Model):
    """Fully connected network, 784-256-128-10 with ReLUs by default."""

    def __init__(
        self,
        batch_size: int,
        units: tuple[int, int, int] = (784, 256, 128),
        activation: Callable[[Any], Any] = tf.nn.relu,
    ) -> None:
        """Takes the batch size, the features, the units of both hidden layers, and their kind."""
        self._activation = activation
        self.parameters = {
            **initial_layer("hidden1", *units[:2]),
            **initial_layer("hidden2", *units[1:]),
            **initial_layer("linear", units[2], 10),
        }
        self.batch = (_uniform(batch_size, units[0]), _labels(batch_size))

    def logits(self, parameters: Parameters, features: Any) -> Any:
        """Returns the logits, [batch, 10]."""
        for name in ("hidden1", "hidden2"):
            features = self._activation(linear(parameters, name, features))
        return linear(parameters, "linear", features)


class Embedding(Model):
    """Mean of an example's embeddings and a linear layer. The table has sparse gradients."""

    def __init__(self, rows: int, width: int, words: int, batch_size: int) -> None:
        """Takes the rows and width of the table, the words of an example, and the batch size."""
        self.parameters = {
            "table": _uniform(rows, width) - 0.5,
            **initial_layer("linear", width, 10),
        }
        ids = np.random.default_rng(0).integers(rows, size=[batch_size, words], dtype=np.int32)
        self.batch = (ids, _labels(batch_size))

    def logits(self, parameters: Parameters, features: Any) -> Any:
        """Returns the logits, [batch, 10]."""
        vectors = tf.nn.embedding_lookup(parameters["table"], features)
        return linear(parameters, "linear", tf.reduce_mean(vectors, axis=1))


class Network(Model):
    """Network of the image classifier, with batch normalization and weight decay.

    It creates its variables with `get_variable`, so `MirroredProgram` cannot train it.
    """

    def __init__(self, name: str, side: int, batch_size: int) -> None:
        """Takes a network name of `examples.slim.networks`, the image side and the batch size."""
        self._network = factory.get_network_fn(name, 10, weight_decay=1e-4, is_training=True)
        self.parameters = {}
        self.batch = (_uniform(batch_size, side, side, 3), _labels(batch_size))

    def logits(self, parameters: Parameters, features: Any) -> Any:
        """Returns the logits, [batch, 10]."""
        del parameters
        logits, _ = self._network(features)
        return logits


def make(name: str, batch_size: int) -> Model:
    """Returns the model of a name: "MLP", "embedding", "ConvNet 8x8" or "ResNet-50 64x64"."""
    kind, _, size = name.partition(" ")
    if kind == "ConvNet":
        return ConvNet(int(size.partition("x")[0]), batch_size)
    if kind == "ResNet-50":
        return Network("resnet_v1_50", int(size.partition("x")[0]), batch_size)
    if kind == "embedding":
        return Embedding(rows=100_000, width=64, words=20, batch_size=batch_size)
    return Mlp(batch_size)


def initial_layer(name: str, *shape: int) -> dict[str, np.ndarray]:
    """Returns weights with variance 1 / inputs, and zero biases, by name."""
    inputs = np.prod(shape[:-1])
    weights = np.random.default_rng(0).normal(0.0, inputs**-0.5, shape).astype(np.float32)
    return {f"{name}/weights": weights, f"{name}/bias": np.zeros(shape[-1:], np.float32)}


def linear(parameters: Parameters, layer: str, features: Any) -> Any:
    """Returns the outputs of a linear layer, [batch, units]."""
    return features @ parameters[f"{layer}/weights"] + parameters[f"{layer}/bias"]


def _uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def _labels(count: int) -> np.ndarray:
    return (np.arange(count) % 10).astype(np.int32)
