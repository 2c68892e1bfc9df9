"""Training programs for the races to a loss, on scikit-learn's digits or on MNIST.

A `Program` trains one model with one optimizer, times its steps and evaluates its loss.
It runs with this K-FAC and with tensorflow/kfac, from the same weights and on the same batches.
"""

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import kfac
from benchmarks import rivals
from benchmarks.kfac_step import registered_models
from benchmarks.time_to_loss.initial_weights import INITIALIZERS
from benchmarks.time_to_loss.race_settings import (
    CALIBRATED,
    GROWING,
    GROWING_OPTIONS,
    KFAC_OPTIONS,
    Problem,
)
from examples import mnist

v1 = tf.compat.v1

BATCH_SIZE = 512
LARGEST_BATCH = 16 * BATCH_SIZE
GROWTH = 120.0
"""Steps in which growing batches grow by a factor of e, up to `LARGEST_BATCH`."""

CURVATURE_PART = 4
"""One in so many examples of a growing batch makes the curvature, but `BATCH_SIZE` at least.

Martens & Grosse (2015), arXiv:1503.05671, §8, use a part of the batch, too.
"""

UNITS = (100, 50, 25, 2)
"""Units of the encoder's layers for the digits. The decoder mirrors them."""

DEEP_UNITS = (1000, 500, 250, 30)
"""Units of the encoder's layers for MNIST."""

EVALUATED = 10_000
"""Most training examples that the loss is evaluated on."""

WARM_UP = 6
"""Untimed steps. K-FAC computes inverses in the first and the sixth."""

_ADAPTIVE: dict[str, Any] = {
    "momentum_type": "qmodel",
    "learning_rate": None,
    "momentum": None,
    "adapt_damping": True,
    "damping_adaptation_interval": 5,
    "invert_every": 5,
    "cov_update_every": 5,
    "cov_ema_decay": 0.9,
}
_FIXED: dict[str, Any] = {
    "momentum_type": "adam",
    "learning_rate": 0.1,
    "damping": 0.003,
    "invert_every": 5,
}


class Program:
    """A problem and an optimizer in their own graph and session.

    Programs with the same problem and seed have the same initial weights and, unless they grow,
    the same batches.
    """

    def __init__(
        self,
        problem: Problem,
        optimizer: str,
        setting: float,
        seed: int,
        weights: Sequence[Any] = (),
    ) -> None:
        """Builds the graph, runs some warm-up steps, and initializes the variables again.

        Args:
          problem: Model and data.
          optimizer: A key of `race_settings.SETTINGS`.
          setting: Tuned value. "momentum" and "adam": learning rate. "kfac": initial damping, as a
            multiple of the mean curvature on the problems of `CALIBRATED`; so does "kfac growing".
            "kfac fixed": norm constraint.
          seed: Seed of weights and batches.
          weights: Initial weights, if they are given: arrays in the order of `weights()`.
        """
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(seed)
            data = _data(problem)
            step = v1.train.create_global_step()
            batch = _draw(data, seed, _growing(step) if optimizer == GROWING else BATCH_SIZE)
            layers = kfac.LayerCollection()
            registered = _curvature_part(batch) if optimizer == GROWING else batch
            loss = _loss(problem, registered, layers)

            def loss_of(examples: Any) -> Any:
                with v1.variable_scope(v1.get_variable_scope(), reuse=True):
                    return _loss(problem, examples)

            if optimizer == GROWING:
                loss = loss_of(batch)
            whole_loss = loss_of(_evaluated(data))
            self._weights = v1.trainable_variables()
            adaptation = {"layer_collection": layers, "loss_fn": loss_of, "train_batch": batch}
            if optimizer in ("kfac", GROWING):
                options = GROWING_OPTIONS if optimizer == GROWING else KFAC_OPTIONS
                adaptation |= options[problem.name]
                if rivals.is_here():
                    adaptation |= {"batch_size": BATCH_SIZE, "loss": loss}
                else:
                    adaptation["calibrate_damping"] = problem.name in CALIBRATED
            train = _make_optimizer(optimizer, setting, adaptation).minimize(loss, step)
            initializer = v1.global_variables_initializer()
            given = [v1.placeholder(tf.float32, weight.shape) for weight in self._weights]
            load = [v1.assign(*pair) for pair in zip(self._weights, given, strict=True)]
        self._session = v1.Session(graph=graph)
        self._step = self._session.make_callable(train)
        self._whole_loss = self._session.make_callable(whole_loss)
        for steps in (WARM_UP, 0):
            self._session.run(initializer)
            if weights:
                self._session.run(load, dict(zip(given, weights, strict=True)))
            self.run(steps)
            self.loss()

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds.

        A step of tensorflow/kfac with logits that are not finite fails when it samples targets, and
        changes nothing. The steps end there.
        """
        start = time.perf_counter()
        with contextlib.suppress(*[tf.errors.InvalidArgumentError] if rivals.is_here() else []):
            for _ in range(steps):
                self._step()
        return time.perf_counter() - start

    def loss(self) -> float:
        """Returns the mean loss over the first `EVALUATED` training examples."""
        return float(self._whole_loss())

    def weights(self) -> list[Any]:
        """Returns the arrays [weights, bias, weights, bias, ...], layer by layer."""
        return list(self._session.run(self._weights))

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def _data(problem: Problem) -> tuple[Any, Any]:
    """Returns all images and labels from variables, which prevents constant folding."""
    train = mnist.load(problem.data_dir).train
    images, labels = (
        v1.get_variable(name, initializer=values, trainable=False).read_value()
        for name, values in (("images", train.images), ("labels", train.labels))
    )
    return images, labels


def _growing(step: Any) -> Any:
    """Returns the examples in the batch of a step, int32 []."""
    size = BATCH_SIZE * tf.exp(tf.cast(step, tf.float32) / GROWTH)
    return tf.cast(tf.minimum(size, float(LARGEST_BATCH)), tf.int32)


def _curvature_part(batch: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns the examples of a growing batch that make averages and quadratic models."""
    images, labels = batch
    count = tf.maximum(BATCH_SIZE, tf.shape(labels)[0] // CURVATURE_PART)
    return images[:count], labels[:count]


def _draw(data: tuple[Any, Any], seed: int, size: Any) -> tuple[Any, Any]:
    """Samples a new batch of a size, with replacement, in each run."""
    images, labels = data
    rows = tf.random.uniform([size], maxval=images.shape[0], dtype=tf.int32, seed=seed)
    return tf.gather(images, rows), tf.gather(labels, rows)


def _evaluated(data: tuple[Any, Any]) -> tuple[Any, Any]:
    """Returns the examples that the loss is evaluated on."""
    images, labels = data
    return data if images.shape[0] <= EVALUATED else (images[:EVALUATED], labels[:EVALUATED])


def _loss(
    problem: Problem, batch: tuple[Any, Any], layers: kfac.LayerCollection | None = None
) -> Any:
    images, labels = batch
    if problem.model == "convnet":
        return registered_models.convnet_loss(images, labels, layers)
    units = DEEP_UNITS if problem.data_dir else UNITS
    encoder = (math.prod(images.shape[1:]), *units)
    activation = getattr(tf, problem.activation)
    initializer = INITIALIZERS[problem.weights] if problem.data_dir else None
    with v1.variable_scope(v1.get_variable_scope(), initializer=initializer):
        return registered_models.autoencoder_loss(images, encoder, activation, layers=layers)


def _make_optimizer(name: str, setting: float, adaptation: Mapping[str, Any]) -> Any:
    if name == "momentum":
        return v1.train.MomentumOptimizer(setting, 0.9)
    if name == "adam":
        return v1.train.AdamOptimizer(setting)
    if name in ("kfac", GROWING):
        return kfac.PeriodicInvCovUpdateKfacOpt(damping=setting, **_ADAPTIVE, **adaptation)
    layers = adaptation["layer_collection"]
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=layers, norm_constraint=setting, **_FIXED
    )
