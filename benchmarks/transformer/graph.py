"""The same network as a model function in graph mode: its losses beside those of Keras' `fit`.

Both train the same weights on the same batches. K-FAC's statistics are of the targets of the
batch, since drawn ones differ, and the rate is constant.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

import kfac
import replicate
from benchmarks.session_programs import mean_cross_entropy
from benchmarks.transformer import race
from benchmarks.transformer.text import Text

v1 = tf.compat.v1

SETTINGS: Mapping[str, Any] = {
    **race.KFAC,
    "momentum": 0.9,
    "damping": 0.01,
    "norm_constraint": 1e-4,
    "estimation_mode": "empirical",
}
RATES = {"K-FAC": 1.0, "Adam": 0.001}
EPSILON = 1e-7


class Trained(NamedTuple):
    """Losses before each step, and the seconds of the median step."""

    losses: list[float]
    seconds: float


def logits(ids: Any, weight: Callable[[str], Any], size: race.Size) -> Any:
    """Returns logits [batch, length, characters] of `race.network`.

    `weight` returns the variable of a path, such as "block_0_hidden/kernel".
    """

    def normalized(x: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        scale, shift = weight(f"{name}/gamma"), weight(f"{name}/beta")
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, race.EPSILON)

    def dense(equation: str, x: Any, name: str) -> Any:
        return tf.einsum(equation, x, weight(f"{name}/kernel")) + weight(f"{name}/bias")

    x = tf.nn.embedding_lookup(weight("embedding_of_characters/embeddings"), ids)
    x += weight("embedding_of_places/embeddings")
    hidden_from = tf.constant(np.triu(np.full([size.length] * 2, -1e9, np.float32), 1))
    for block in range(size.blocks):
        name = f"attention_{block}"
        y = normalized(x, f"norm_before_attention_{block}")
        query, key, value = (
            dense("bpf,fhs->bphs", y, f"{name}/{part}") for part in ("query", "key", "value")
        )
        query *= (size.width // size.heads) ** -0.5
        scores = tf.einsum("bqhs,bkhs->bhqk", query, key) + hidden_from
        mixed = tf.einsum("bhqk,bkhs->bqhs", tf.nn.softmax(scores), value)
        x += dense("bphs,hsf->bpf", mixed, f"{name}/attention_output")
        y = normalized(x, f"norm_before_perceptron_{block}")
        y = tf.nn.gelu(dense("bpf,fg->bpg", y, f"hidden_{block}"))
        x += dense("bpf,fg->bpg", y, f"outputs_{block}")
    return dense("bpf,fg->bpg", normalized(x, "last_norm"), "logits")


def train(
    name: str, start: Mapping[str, np.ndarray], batches: np.ndarray, size: race.Size
) -> Trained:
    """Trains with a model function from weights by path, on windows [steps, batch, length + 1]."""

    def model_fn(features: Any, labels: Any, mode: str) -> replicate.EstimatorSpec:
        weights = {
            path: v1.get_variable(path, initializer=value, use_resource=True)
            for path, value in start.items()
        }
        predicted = logits(features, weights.__getitem__, size)
        loss = mean_cross_entropy(predicted, labels)
        if name == "K-FAC":
            layers = kfac.LayerCollection()
            layers.set_default_fully_connected_multi_approximation("kron_expand")
            layers.register_categorical_predictive_distribution(
                predicted, targets=labels, coeff=1 / size.length
            )
            layers.auto_register_layers(finds_positions=True)
            optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=RATES[name], layer_collection=layers, **SETTINGS
            )
        else:
            optimizer = v1.train.AdamOptimizer(RATES[name], epsilon=EPSILON)
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with tf.Graph().as_default(), v1.Session() as session:
        windows = v1.placeholder(tf.int32, [size.batch, size.length + 1])
        spec = model_fn(windows[:, :-1], windows[:, 1:], replicate.ModeKeys.TRAIN)
        session.run(v1.global_variables_initializer())

        def step(batch: np.ndarray) -> float:
            return float(session.run([spec.loss, spec.train_op], {windows: batch})[0])

        return _timed(step, batches)


def train_keras(model: Any, name: str, batches: np.ndarray) -> Trained:
    """Trains a Keras model on the same windows."""
    if name == "K-FAC":
        optimizer = kfac.keras.Kfac(RATES[name], fisher_approx="kron_expand", **SETTINGS)
    else:
        optimizer = keras.optimizers.Adam(RATES[name], epsilon=EPSILON)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def step(batch: np.ndarray) -> float:
        model.reset_metrics()
        return float(model.train_on_batch(batch[:, :-1], batch[:, 1:]))

    return _timed(step, batches)


def compare(name: str, text: Text, size: race.Size, steps: int = 20) -> tuple[Trained, Trained]:
    """Trains both; returns what Keras did, and the model function."""
    model = race.network(size, seed=0)
    start = {weight.path: weight.numpy() for weight in model.trainable_weights}
    drawn = text.windows(steps * size.batch, size.length, np.random.default_rng(0))
    batches = drawn.reshape([steps, size.batch, size.length + 1])
    return train_keras(model, name, batches), train(name, start, batches, size)


def _timed(step: Callable[[np.ndarray], float], batches: np.ndarray) -> Trained:
    losses, seconds = [], []
    for batch in batches:
        started = time.perf_counter()
        losses.append(step(batch))
        seconds.append(time.perf_counter() - started)
    return Trained(losses, float(np.median(seconds)))
