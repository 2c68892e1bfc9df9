"""Networks of dense layers over feature columns, and `dnn_logit_fn_builder`.

Its layers use no Keras, so that towers share their variables, and partitioners split them.
"""

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.canned.columns.column_kinds import Column, dense_columns
from replicate.canned.columns.input_layer import input_layer
from replicate.canned.model_record import Layer
from replicate.canned.partitioners import (
    Partitioner,
    is_whole,
    layer_partitioner,
    table_partitioner,
)
from replicate.canned.parts import PartLogits, check_units, trainable_variables_in
from replicate.spec import ModeKeys
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


Activation: TypeAlias = Callable[[Tensor], Tensor] | str
"""Function of a layer's sums, such as `tf.nn.relu`, or its name in `tf.nn`."""


@final
@dataclasses.dataclass(frozen=True)
class Network:
    """Dense layers over feature columns, with the settings of `DNNEstimator`."""

    head_scope: ClassVar[str] = "dnn"

    hidden_units: Sequence[int]
    columns: Sequence[Column]
    activation_fn: Callable[[Tensor], Tensor] | None
    dropout: float | None
    input_layer_partitioner: Partitioner | None
    batch_norm: bool

    def build(self, features: Mapping[str, Any], units: int, mode: str, config: Any) -> PartLogits:
        """Builds the network below the scope "dnn", as `Part.build`."""
        tables = table_partitioner(config, self.input_layer_partitioner)
        with v1.variable_scope("dnn", partitioner=layer_partitioner(config)) as scope:
            logits, layers, updates = self.logits(features, units, mode, tables)
        return PartLogits(logits, trainable_variables_in(scope.name), layers, updates)

    def logits(
        self, features: Mapping[str, Any], units: int, mode: str, tables: Partitioner | None
    ) -> tuple[Tensor, list[Layer], list[Operation]]:
        """Builds the network below the current variable scope; `tables` partitions embeddings.

        Returns:
          The logits [batch, units], records of layers, and updates of batch normalization.
        """
        is_training = mode == ModeKeys.TRAIN
        with v1.variable_scope("input_from_feature_columns") as scope:
            scope.set_partitioner(tables)
            net, layers = input_layer(features, self.columns)
        layers, updates = list(layers), []
        for index, hidden_units in enumerate(self.hidden_units):
            with v1.variable_scope(f"hiddenlayer_{index}"):
                net, records = dense(net, hidden_units, self.activation_fn)
                layers += records
                if is_training and self.dropout:
                    net = dropout(net, self.dropout)
                if self.batch_norm:
                    normalized = batch_normalization(net, f"batchnorm_{index}", is_training)
                    net = normalized.outputs
                    updates += normalized.updates
                _summarize(net, is_training)
        with v1.variable_scope("logits"):
            logits, records = dense(net, units)
            _summarize(logits, is_training)
        return logits, [*layers, *records], updates


def make_network(
    hidden_units: Iterable[int],
    feature_columns: Iterable[Column],
    activation_fn: Activation | None,
    dropout: float | None,
    input_layer_partitioner: Partitioner | None,
    batch_norm: bool,
    prefix: str = "",
) -> Network:
    """Returns a network, after checks. `prefix` begins the names of the caller's arguments.

    Raises:
      ValueError: A setting is out of range, or a column is of a kind that networks cannot take.
      TypeError: A column is not a feature column, or a function is not one.
    """
    if isinstance(hidden_units, (int, str)) or hidden_units is None:
        raise ValueError(
            f"{prefix}hidden_units must be a list with the units of each hidden layer, got "
            f"{hidden_units!r}. Pass [64, 32], for example."
        )
    units = tuple(hidden_units)
    if not all(_is_count(each) for each in units):
        raise ValueError(f"{prefix}hidden_units must be ints ≥ 1, got {list(units)}.")
    if dropout is not None and not 0 <= dropout < 1:
        raise ValueError(
            f"{prefix}dropout must be in [0, 1), the share of values that become 0, or None; got "
            f"{dropout!r}."
        )
    activation: Any = activation_fn
    if isinstance(activation_fn, str):
        activation = getattr(tf.nn, activation_fn, activation_fn)
    for name, function in (
        ("activation_fn", activation),
        ("input_layer_partitioner", input_layer_partitioner),
    ):
        if function is not None and not callable(function):
            raise TypeError(f"{prefix}{name} must be a function or None, got {function!r}.")
    columns = dense_columns(f"{prefix}feature_columns", feature_columns)
    return Network(
        tuple(map(int, units)), columns, activation, dropout, input_layer_partitioner, batch_norm
    )


def dnn_logit_fn_builder(
    units: int,
    hidden_units: Iterable[int],
    feature_columns: Iterable[Column],
    activation_fn: Activation | None = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Partitioner | None = None,
    batch_norm: bool = False,
) -> Callable[[Mapping[str, Any], str], Tensor]:
    """Returns a function that computes the logits of a network, for a model_fn.

    The variables are called hiddenlayer_0/kernel, logits/bias, and so on, below the variable scope
    in which the function is called. Batch normalization adds its updates to UPDATE_OPS.

    Args:
      units: Logits per example.
      hidden_units: Units of each hidden layer, ≥ 1.
      feature_columns: Dense feature columns, such as numeric, embedding and indicator columns.
      activation_fn: Activation of hidden layers or its name in tf.nn; None for none.
      dropout: Share of a hidden layer's values that are set to 0 in TRAIN, in [0, 1).
      input_layer_partitioner: Partitioner of embeddings; None for that of the variable scope.
      batch_norm: True to normalise each hidden layer after its dropout.

    Returns:
      fn(features, mode) → Tensor [batch, units].

    Raises:
      ValueError: A setting is out of range, or a column is of a kind that networks cannot take.
      TypeError: A column is not a feature column, or a function is not one.
    """
    check_units(units)
    network = make_network(
        hidden_units, feature_columns, activation_fn, dropout, input_layer_partitioner, batch_norm
    )

    def dnn_logit_fn(features: Mapping[str, Any], mode: str) -> Tensor:
        tables = input_layer_partitioner or v1.get_variable_scope().partitioner
        return network.logits(features, units, mode, tables)[0]

    return dnn_logit_fn


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and value >= 1


def _summarize(values: Tensor, is_training: bool) -> None:
    """Writes, in TRAIN, a layer's share of zeros and histogram under the current name scope."""
    if is_training:
        v1.summary.scalar("fraction_of_zero_values", tf.math.zero_fraction(values))
        v1.summary.histogram("activation", values)
