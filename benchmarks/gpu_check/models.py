"""Models and data of the checks of numbers: smooth networks that learn noisy patterns.

They have no ReLU and no max pooling. The gradients of these jump where two numbers are equal, so
rounding errors could grow to differences that are no errors of towers.
"""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.tower_step import tower_models
from benchmarks.tower_step.tower_models import initial_layer, linear

BATCH_SIZE = 240
"""Examples in a batch: equal shards for one to four towers."""

CLASSES = 10
SIDE = 16
"""Pixels of a side of an image."""


@typing.final
class ConvNet(tower_models.Model):
    """Two 3×3 convolutions with tanh and average pooling, and a linear layer."""

    def __init__(self, batch_size: int = BATCH_SIZE) -> None:
        self._features = (SIDE // 4) ** 2 * 16
        self.parameters = {
            **initial_layer("conv1", 3, 3, 1, 8),
            **initial_layer("conv2", 3, 3, 8, 16),
            **initial_layer("linear", self._features, CLASSES),
        }
        self.batch = noisy_patterns(batch_size, [SIDE, SIDE, 1])

    def logits(self, parameters: tower_models.Parameters, features: Any) -> Any:
        """Returns the logits, [batch, classes]."""
        for name in ("conv1", "conv2"):
            outputs = tf.nn.conv2d(features, parameters[f"{name}/weights"], 1, "SAME")
            outputs = tf.tanh(tf.nn.bias_add(outputs, parameters[f"{name}/bias"]))
            features = tf.nn.avg_pool2d(outputs, 2, 2, "VALID")
        return linear(parameters, "linear", tf.reshape(features, [-1, self._features]))


@typing.final
class Mlp(tower_models.Model):
    """Fully connected network 256-128-64-10 with tanh."""

    def __init__(self, batch_size: int = BATCH_SIZE) -> None:
        self.parameters = {
            **initial_layer("hidden1", SIDE * SIDE, 128),
            **initial_layer("hidden2", 128, 64),
            **initial_layer("linear", 64, CLASSES),
        }
        self.batch = noisy_patterns(batch_size, [SIDE * SIDE])

    def logits(self, parameters: tower_models.Parameters, features: Any) -> Any:
        """Returns the logits, [batch, classes]."""
        for name in ("hidden1", "hidden2"):
            features = tf.tanh(linear(parameters, name, features))
        return linear(parameters, "linear", features)


@typing.final
class WideMlp(tower_models.Model):
    """Fully connected network with tanh and few examples, whose gradients are 19 MB by default."""

    def __init__(self, width: int = 2048, batch_size: int = 16) -> None:
        """Takes the width of the two hidden layers and the batch size."""
        self.parameters = {
            **initial_layer("hidden1", SIDE * SIDE, width),
            **initial_layer("hidden2", width, width),
            **initial_layer("linear", width, CLASSES),
        }
        self.batch = noisy_patterns(batch_size, [SIDE * SIDE])

    def logits(self, parameters: tower_models.Parameters, features: Any) -> Any:
        """Returns the logits, [batch, classes]."""
        for name in ("hidden1", "hidden2"):
            features = tf.tanh(linear(parameters, name, features))
        return linear(parameters, "linear", features)


def noisy_patterns(count: int, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns features [count, *shape] and labels: a pattern for each class, with noise.

    A fifth of the labels is random, so that the loss stays away from zero.
    """
    random = np.random.default_rng(0)
    patterns = random.normal(size=[CLASSES, *shape])
    labels = np.arange(count) % CLASSES
    features = patterns[labels] + random.normal(size=[count, *shape])
    wrong = random.random(count) < 0.2
    labels = np.where(wrong, random.integers(0, CLASSES, count), labels)
    return features.astype(np.float32), labels.astype(np.int32)


MODELS = {"ConvNet": ConvNet, "MLP": Mlp}
"""Models by name: functions of the batch size."""
