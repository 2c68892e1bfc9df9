"""Training of smooth networks on towers, with the optimizers of the checks.

The networks learn noisy patterns and have no ReLU and no max pooling. The gradients of these jump
where two numbers are equal, so rounding errors could grow to differences that are no errors of
towers.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

import kfac
import replicate
from benchmarks.session_programs import SessionProgram, mean_cross_entropy
from benchmarks.tower_step import tower_models, tower_programs

v1 = tf.compat.v1

BATCH_SIZE = 240
"""Examples in a batch: equal shards for one to four towers."""
CLASSES = 10
SIDE = 16
"""Pixels of a side of an image."""

Preparation: TypeAlias = Callable[[Any, Any], Callable[[], Any]]
"""Function of a tower's logits and labels that returns a function that makes the optimizer."""


def convnet(batch_size: int = BATCH_SIZE) -> tower_models.ConvNet:
    """Returns two 3×3 convolutions with tanh and average pooling, and a linear layer."""

    def pool(x: Any) -> Any:
        return tf.nn.avg_pool2d(x, 2, 2, "VALID")

    model = tower_models.ConvNet(SIDE, batch_size, 3, (8, 16), tf.tanh, pool)
    model.batch = noisy_patterns(batch_size, [SIDE, SIDE, 1])
    return model


def mlp(batch_size: int = BATCH_SIZE, hidden: tuple[int, int] = (128, 64)) -> tower_models.Mlp:
    """Returns a fully connected network with tanh, 256-128-64-10 by default."""
    model = tower_models.Mlp(batch_size, (SIDE * SIDE, *hidden), tf.tanh)
    model.batch = noisy_patterns(batch_size, [SIDE * SIDE])
    return model


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


MODELS: Mapping[str, Callable[..., tower_models.Model]] = {"ConvNet": convnet, "MLP": mlp}
"""Models by name: functions of the batch size."""


def momentum(_logits: Any, _labels: Any) -> Callable[[], Any]:
    """Prepares SGD with momentum."""
    return lambda: v1.train.MomentumOptimizer(0.02, 0.9)


def adam(_logits: Any, _labels: Any) -> Callable[[], Any]:
    """Prepares Adam.

    Adam divides gradients by their size. Its epsilon is far above the rounding errors of gradients,
    which it would enlarge to whole steps otherwise.
    """
    return lambda: v1.train.AdamOptimizer(0.001, epsilon=1e-3)


def kfac_momentum(logits: Any, labels: Any) -> Callable[[], Any]:
    """Registers the layers of a tower, and prepares K-FAC. It draws no random targets."""
    layers = kfac.graph_layer_collection()
    layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    layers.auto_register_layers()
    return lambda: kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=5,
        learning_rate=0.02,
        damping=0.1,
        momentum=0.9,
        norm_constraint=0.01,
        estimation_mode="empirical",
        layer_collection=layers,
    )


OPTIMIZERS: Mapping[str, Preparation] = {
    "momentum": momentum,
    "Adam": adam,
    "K-FAC": kfac_momentum,
}
"""Optimizers by name."""


@typing.final
class Training(SessionProgram):
    """A model that `replicate_model_fn` trains on its batch, in a graph and session of its own."""

    def __init__(
        self,
        model: tower_models.Model,
        devices: Sequence[str],
        prepare: Preparation,
        loss_scale: replicate.DynamicLossScale | None = None,
    ) -> None:
        """Builds the graph and initializes the variables.

        With a loss scale, logits are computed in float16, from float32 variables and features.
        """

        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            parameters = tower_programs.get_variables(model)
            if loss_scale is not None:
                parameters = {name: tf.cast(x, tf.float16) for name, x in parameters.items()}
                features = tf.cast(features, tf.float16)
            logits = model.logits(parameters, features)
            loss = mean_cross_entropy(tf.cast(logits, tf.float32), labels)
            make_optimizer = prepare(logits, labels)
            optimizer = replicate.TowerOptimizer(make_optimizer, loss_scale=loss_scale)
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
            return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

        mean = v1.losses.Reduction.MEAN
        replicated = replicate.replicate_model_fn(model_fn, mean, devices)

        def build() -> Any:
            batch = tower_programs.read_batch(model)
            spec = replicated(*batch, replicate.ModeKeys.TRAIN)
            return [spec.loss, spec.train_op]

        super().__init__(build)

    def losses(self, steps: int) -> list[float]:
        """Runs some steps and returns the loss before each."""
        return [float(self.session.run(self.train)[0]) for _ in range(steps)]

    def weights(self) -> list[np.ndarray]:
        """Returns the trained values, in order of creation."""
        with self.graph.as_default():
            values: list[np.ndarray] = self.session.run(v1.trainable_variables())
        return values

    def value(self, name: str) -> Any:
        """Returns the value of the variable of that name."""
        with self.graph.as_default():
            (variable,) = (each for each in v1.global_variables() if each.op.name == name)
        return self.session.run(variable)
