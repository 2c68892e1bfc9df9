"""Layers of a network: dense, dropout and batch normalization, over `tf.compat.v1.get_variable`.

They use no Keras, so that towers share their variables, and partitioners split them.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import is_whole
from replicate.tower.seeds import step_seed

v1 = tf.compat.v1

MOMENTUM = 0.999
"""Weight of the old moving average in batch normalization."""
EPSILON = 0.001
"""Term added to the variance in batch normalization."""


class Dense(NamedTuple):
    """Result of a dense layer, [batch, units]; its record, if its variables are not partitioned."""

    outputs: Tensor
    layers: list[Layer]


def dense(
    inputs: Tensor, units: int, activation: Callable[[Tensor], Tensor] | None = None
) -> Dense:
    """Computes activation(inputs · kernel + bias) of inputs [batch, features], in this scope."""
    kernel = v1.get_variable(
        "kernel", [inputs.shape[-1], units], initializer=v1.glorot_uniform_initializer()
    )
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
    known = is_whole(kernel) and is_whole(bias)
    layers = [Layer("dense", kernel, bias, inputs, outputs)] if known else []
    return Dense(outputs if activation is None else activation(outputs), layers)


def dropout(inputs: Tensor, rate: float) -> Tensor:
    """Sets values to 0 with probability rate, divides the others by 1 − rate.

    Srivastava et al. (2014), Dropout: a simple way to prevent neural networks from overfitting.

    The draw depends on the seed of the graph, the variable scope, the tower and the global step
    only, so a resumed training goes on with the draws of an uninterrupted one. In a graph without a
    seed or a global step it is unpredictable.

    Args:
      inputs: Floats of any shape.
      rate: Probability, in (0, 1).
    """
    graph_seed, _ = v1.random.get_seed(None)
    if graph_seed is None or v1.train.get_global_step() is None:
        return tf.nn.dropout(inputs, rate=rate)
    place = f"{graph_seed}/{v1.get_variable_scope().name}"
    seed = step_seed(zlib.crc32(place.encode()) >> 1)
    return tf.nn.experimental.stateless_dropout(inputs, rate=rate, seed=seed)


class Normalized(NamedTuple):
    """Result of batch normalization, [batch, units]; updates of the moving averages, in TRAIN."""

    outputs: Tensor
    updates: list[Operation]


def batch_normalization(inputs: Tensor, name: str, is_training: bool) -> Normalized:
    """Normalises each unit, then scales and shifts it; Ioffe & Szegedy (2015).

    Inputs are [batch, units]. In training, mean and variance are those of the batch, and move the
    averages, which are used otherwise. The updates are also added to UPDATE_OPS.
    """
    zeros, ones = v1.zeros_initializer(), v1.ones_initializer()
    shape = [inputs.shape[-1]]
    with v1.variable_scope(name) as scope:
        scope.set_partitioner(None)
        gamma = v1.get_variable("gamma", shape, initializer=ones)
        beta = v1.get_variable("beta", shape, initializer=zeros)
        mean = v1.get_variable("moving_mean", shape, initializer=zeros, trainable=False)
        variance = v1.get_variable("moving_variance", shape, initializer=ones, trainable=False)
        if not is_training:
            outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, EPSILON)
            return Normalized(outputs, [])
        moments = _moments(inputs)
        outputs = tf.nn.batch_normalization(inputs, *moments, beta, gamma, EPSILON)
        updates = [
            _moved(average, value) for average, value in zip((mean, variance), moments, strict=True)
        ]
    for update in updates:
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return Normalized(outputs, updates)


def _moments(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and variance over the rows; 0 without rows, as in a tower without examples."""
    rows = tf.maximum(tf.cast(tf.shape(inputs)[0], inputs.dtype), 1)
    mean = tf.reduce_sum(inputs, axis=0) / rows
    squares = tf.math.squared_difference(inputs, tf.stop_gradient(mean))
    return mean, tf.reduce_sum(squares, axis=0) / rows


def _moved(average: Any, value: Tensor) -> Operation:
    """Returns the operation that moves an average towards a value."""
    return v1.assign_sub(average, (average.read_value() - value) * (1 - MOMENTUM)).op
