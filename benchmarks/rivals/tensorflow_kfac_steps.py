"""Times steps of tensorflow/kfac 0.2.4 and of momentum SGD on one model; prints seconds as JSON.

Runs on the Python of the environment that `benchmarks.rival_step` makes, where `kfac` is that
package and not this project's.

    python -I tensorflow_kfac_steps.py convnet 256 7 10
"""

import itertools
import json
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

import kfac

v1 = tf.compat.v1

INVERT_EVERY = 10
ENCODER = (784, 1000, 500, 250, 30)
UNITS = (*ENCODER, *ENCODER[-2::-1])


def build_convnet(images: Any, layers: Any) -> Any:
    """Returns the mean cross entropy of two convolutions 5×5×16 and a linear layer."""
    values = images
    for name, inputs in (("conv1", 1), ("conv2", 16)):
        weights, bias = _layer(name, 5, 5, inputs, 16)
        outputs = tf.nn.bias_add(tf.nn.conv2d(values, weights, 1, "SAME"), bias)
        layers.register_conv2d((weights, bias), (1, 1, 1, 1), "SAME", values, outputs)
        values = tf.nn.max_pool2d(tf.nn.relu(outputs), 3, 2, "SAME")
    flat = tf.reshape(values, [-1, 7 * 7 * 16])
    weights, bias = _layer("linear", 7 * 7 * 16, 10)
    logits = flat @ weights + bias
    layers.register_fully_connected((weights, bias), flat, logits)
    layers.register_categorical_predictive_distribution(logits)
    labels = tf.range(images.shape[0]) % 10
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def build_autoencoder(images: Any, layers: Any) -> Any:
    """Returns the sigmoid cross entropy of an autoencoder with sigmoids, summed over pixels."""
    targets = values = outputs = tf.reshape(images, [-1, UNITS[0]])
    for index, sizes in enumerate(itertools.pairwise(UNITS)):
        weights, bias = _layer(f"layer_{index}", *sizes)
        outputs = values @ weights + bias
        layers.register_fully_connected((weights, bias), values, outputs)
        values = tf.sigmoid(outputs)
    layers.register_multi_bernoulli_predictive_distribution(outputs)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=outputs)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def _layer(name: str, *shape: int) -> tuple[Any, Any]:
    scale = np.prod(shape[:-1]) ** -0.5
    weights = np.random.default_rng(0).normal(0.0, scale, shape).astype(np.float32)
    with v1.variable_scope(name):
        return (
            v1.get_variable("weights", initializer=weights),
            v1.get_variable("bias", shape[-1:], initializer=tf.zeros_initializer()),
        )


MODELS = {"convnet": build_convnet, "autoencoder": build_autoencoder}


class Program:
    """A model and an optimizer in a graph and a session of their own."""

    def __init__(self, model: str, batch_size: int, is_kfac: bool) -> None:
        """Builds and initializes it."""
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(1)
            images = v1.get_variable(
                "images",
                [batch_size, 28, 28, 1],
                initializer=v1.random_uniform_initializer(),
                trainable=False,
            )
            layers = kfac.LayerCollection()
            loss = MODELS[model](tf.identity(images), layers)
            if is_kfac:
                optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
                    invert_every=INVERT_EVERY,
                    learning_rate=1e-4,
                    damping=0.1,
                    layer_collection=layers,
                    momentum_type="regular",
                )
            else:
                optimizer = v1.train.MomentumOptimizer(1e-3, 0.9)
            self._train = optimizer.minimize(loss, global_step=v1.train.create_global_step())
            initializer = v1.global_variables_initializer()
        self._session = v1.Session(graph=graph)
        self._session.run(initializer)

    def run(self, steps: int) -> float:
        """Makes some steps; returns the mean number of seconds that one took."""
        start = time.perf_counter()
        for _ in range(steps):
            self._session.run(self._train)
        return (time.perf_counter() - start) / steps


def main(model: str, batch_size: int, repeats: int, block: int) -> None:
    """Times blocks of both in turn and prints {"momentum": [...], "kfac": [...]}."""
    v1.disable_v2_behavior()
    programs = {name: Program(model, batch_size, name == "kfac") for name in ("momentum", "kfac")}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(repeats + 1):
        for name, program in programs.items():
            seconds = program.run(block if turn else 2 * INVERT_EVERY)
            times[name] += [seconds] if turn else []
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
