"""Batch normalization with the arguments, variables and collections of tf.contrib.layers.

It takes part in tf-slim's arg_scope, and makes its variables by tf-slim's `model_variable`, so that
scopes for both reach it. It needs no Keras.

Reference:
  Ioffe and Szegedy (2015), Batch Normalization, https://arxiv.org/abs/1502.03167
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.compat.contrib.repaired_slim.moving_statistics import move_debiased, renormalize
from replicate.compat.layers.moving_average import move_towards

v1 = tf.compat.v1
_slim = importlib.import_module("tf_slim")
_utils = importlib.import_module("tf_slim.layers.utils")
_UPDATE_OPS = v1.GraphKeys.UPDATE_OPS
_HALF = (tf.float16, tf.bfloat16)
_WHEN_FUSED = (v1.GraphKeys.GLOBAL_VARIABLES,)
_OF_MODEL = (*_WHEN_FUSED, v1.GraphKeys.MODEL_VARIABLES)
_AXES = {"NHWC": -1, "NCHW": 1}


class _Parameters(NamedTuple):
    """Variables of a layer: `beta` and `gamma`, None if left out, and the moving averages."""

    beta: Any
    gamma: Any
    moving_mean: Any
    moving_variance: Any


class _Settings(NamedTuple):
    """Settings of a layer that several of its steps read.

    `as_operations` collects the updates as operations, not as Tensors. The variables that correct
    the moving mean for its start at zero are in `debiasing_collections`, None to leave it as it is.
    """

    axis: int
    decay: Any
    epsilon: float
    is_training: Any
    updates_collections: Any
    as_operations: bool
    debiasing_collections: tuple[str, ...] | None


@_slim.add_arg_scope
def batch_norm(
    inputs: Any,
    decay: Any = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = _UPDATE_OPS,
    is_training: Any = True,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Mapping[str, Any] | None = None,
    renorm_decay: Any = 0.99,
    adjustment: Callable[[Any], tuple[Any, Any]] | None = None,
) -> Any:
    """Normalizes each channel over the batch, and keeps moving averages for inference.

    Variables: `beta`, `gamma`, `moving_mean` and `moving_variance` [channels] in the scope
    "BatchNorm", and `renorm_mean` and `renorm_stddev` with `renorm`.

    Args:
      inputs: Tensor of rank 2 or more; its channels are known.
      decay: Weight of the old moving averages.
      center: True to add `beta`.
      scale: True to multiply by `gamma`.
      epsilon: Added to the variance.
      activation_fn: Function of the result, or None.
      param_initializers: Initializers by the names of the variables.
      param_regularizers: Regularizers by the names `beta` and `gamma`.
      updates_collections: Collections of the updates of the moving averages. With None they run
        before the result.
      is_training: True to use the batch's statistics and to update the averages; False to use the
        averages. A bool or a boolean Tensor.
      reuse: True to use the variables of the scope again.
      variables_collections: Collections of the variables: a list, or a dict of lists by names.
      outputs_collections: Collections of the result.
      trainable: True if `beta` and `gamma` are trained.
      batch_weights: Tensor [batch], weights of the examples in the statistics.
      fused: False to leave out TensorFlow's fused operation. Where it runs, for ranks 2 and 4, the
        moving average is that of the unbiased variance.
      data_format: "NHWC" for channels in the last axis, "NCHW" for the second one.
      zero_debias_moving_mean: True to correct the moving mean for its start at zero.
      scope: Name or scope of the variables.
      renorm: True for batch renormalization.
      renorm_clipping: Limits of its corrections by "rmin", "rmax" and "dmax".
      renorm_decay: Weight of its old averages.
      adjustment: Function of the shape of `inputs`, a Tensor, to a factor and a summand of the
        normalized values in training.

    Returns:
      Tensor of the shape and type of `inputs`.

    Raises:
      ValueError: The data format, the rank or the number of channels is not known, or renorm is
        used with batch_weights, updates_collections or zero_debias_moving_mean.
    """
    inputs = tf.convert_to_tensor(inputs)
    axis = _checked_axis(inputs, data_format)
    by_default = (
        batch_weights is None and not zero_debias_moving_mean and updates_collections == _UPDATE_OPS
    )
    if renorm and not by_default:
        raise ValueError(
            "batch_norm got renorm=True, which works neither with batch_weights nor with "
            "zero_debias_moving_mean, and only with the default updates_collections."
        )
    is_fused = (
        fused is not False
        and batch_weights is None
        and adjustment is None
        and not renorm
        and inputs.shape.rank in (2, 4)
    )
    debiasing_collections = _WHEN_FUSED if is_fused else _OF_MODEL
    settings = _Settings(
        axis,
        decay,
        epsilon,
        is_training,
        updates_collections,
        by_default and not (is_fused and inputs.shape.rank == 2),
        debiasing_collections if zero_debias_moving_mean else None,
    )
    with v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as variables:
        if not (is_fused or by_default):
            param_regularizers = None  # TensorFlow 1.15 left them out here.
        is_single = is_fused or (by_default and inputs.dtype in _HALF)
        make = _VariableMaker(
            int(inputs.shape[axis]),
            tf.float32 if is_single else inputs.dtype,
            param_initializers or {},
            param_regularizers or {},
            variables_collections,
        )
        parameters = _Parameters(
            make.trained("beta", v1.zeros_initializer(), trainable) if center else None,
            make.trained("gamma", v1.ones_initializer(), trainable) if scale else None,
            make.moving("moving_mean", v1.zeros_initializer()),
            make.moving("moving_variance", v1.ones_initializer()),
        )
        if is_fused:
            outputs = _fused(inputs, parameters, settings, data_format)
        else:
            corrections = _Corrections(
                make.renormalization() if renorm else None,
                renorm_clipping or {},
                renorm_decay,
                adjustment,
            )
            outputs = _normalized(inputs, parameters, settings, batch_weights, corrections)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _utils.collect_named_outputs(outputs_collections, variables.name, outputs)


def _checked_axis(inputs: Any, data_format: str) -> int:
    if data_format not in _AXES:
        raise ValueError(f"batch_norm got data_format={data_format!r}: it is 'NHWC' or 'NCHW'.")
    if inputs.shape.rank is None:
        raise ValueError(f"batch_norm got inputs of unknown rank: {inputs.name}.")
    axis = -1 if inputs.shape.rank == 2 else _AXES[data_format]
    if tf.compat.dimension_value(inputs.shape[axis]) is None:
        raise ValueError(
            f"batch_norm needs the number of channels, axis {axis} of its inputs {inputs.name}, "
            f"whose shape is {inputs.shape}."
        )
    return axis


class _VariableMaker(NamedTuple):
    """Makes variables of one value per channel, in the current scope."""

    channels: int
    dtype: Any
    initializers: Mapping[str, Any]
    regularizers: Mapping[str, Any]
    collections: Any

    def trained(self, name: str, initializer: Any, trainable: bool) -> Any:
        return _slim.model_variable(
            name,
            shape=[self.channels],
            dtype=self.dtype,
            initializer=self.initializers.get(name, initializer),
            regularizer=self.regularizers.get(name),
            collections=_utils.get_variable_collections(self.collections, name),
            trainable=trainable,
        )

    def moving(self, name: str, initializer: Any) -> Any:
        with v1.variable_scope(v1.get_variable_scope()) as whole:
            whole.set_partitioner(None)
            return _slim.model_variable(
                name,
                shape=[self.channels],
                dtype=self.dtype,
                initializer=self.initializers.get(name, initializer),
                collections=_utils.get_variable_collections(self.collections, name),
                trainable=False,
            )

    def renormalization(self) -> tuple[Any, Any]:
        start = self.initializers.get("moving_mean", v1.zeros_initializer())
        return (
            self.moving("renorm_mean", start),
            self.moving("renorm_stddev", v1.ones_initializer()),
        )


def _when_training(settings: _Settings, in_training: Any, in_inference: Any) -> Any:
    """Calls one of two functions, at once if `is_training` is known, else in a tf.cond."""
    return _utils.smart_cond(settings.is_training, in_training, in_inference)


def _may_train(settings: _Settings) -> bool:
    known = _utils.constant_value(settings.is_training)
    return known is None or bool(known)


def _updates(parameters: _Parameters, settings: _Settings, mean: Any, variance: Any) -> list[Any]:
    """Makes the assignments of the moving averages."""
    collections = settings.debiasing_collections
    if collections is None:
        new_mean = move_towards(parameters.moving_mean, mean, settings.decay)
    else:
        new_mean = move_debiased(parameters.moving_mean, mean, settings.decay, collections)
    return [new_mean, move_towards(parameters.moving_variance, variance, settings.decay)]


def _collect_updates(
    parameters: _Parameters, settings: _Settings, mean: Any, variance: Any
) -> None:
    """Puts the updates of the moving averages into their collections."""

    def in_training() -> list[Any]:
        return _updates(parameters, settings, mean, variance)

    if _utils.constant_value(settings.is_training) is not None:
        updates = in_training()
        if settings.as_operations:
            updates = [update.op for update in updates]
    else:
        updates = _when_training(
            settings,
            lambda: [tf.identity(update) for update in in_training()],
            lambda: [tf.identity(average) for average in parameters[2:]],
        )
    for update in updates:
        v1.add_to_collections(settings.updates_collections, update)


def _fused(inputs: Any, parameters: _Parameters, settings: _Settings, data_format: str) -> Any:
    """Normalizes by TensorFlow's fused operation, for ranks 2 and 4."""
    channels = int(inputs.shape[settings.axis])
    shape = [-1, 1, 1, channels] if data_format == "NHWC" else [-1, channels, 1, 1]
    images = tf.reshape(inputs, shape) if inputs.shape.rank == 2 else inputs
    beta, gamma, moving_mean, moving_variance = parameters
    scale = tf.ones([channels]) if gamma is None else gamma
    offset = tf.zeros([channels]) if beta is None else beta

    def in_training() -> Any:
        return v1.nn.fused_batch_norm(
            images, scale, offset, epsilon=settings.epsilon, data_format=data_format
        )

    def in_inference() -> Any:
        return v1.nn.fused_batch_norm(
            images,
            scale,
            offset,
            moving_mean,
            moving_variance,
            settings.epsilon,
            data_format,
            is_training=False,
        )

    outputs, mean, variance = _when_training(settings, in_training, in_inference)
    if _may_train(settings):
        if settings.updates_collections is None:
            outputs = _after_updates(parameters, settings, mean, variance, outputs)
        else:
            _collect_updates(parameters, settings, mean, variance)
    return tf.reshape(outputs, tf.shape(inputs)) if inputs.shape.rank == 2 else outputs


def _after_updates(
    parameters: _Parameters, settings: _Settings, mean: Any, variance: Any, result: Any
) -> Any:
    """Returns a result that waits for the updates of the moving averages."""

    def in_training() -> Any:
        with tf.control_dependencies(_updates(parameters, settings, mean, variance)):
            return tf.identity(result)

    return _when_training(settings, in_training, lambda: tf.identity(result))


class _Corrections(NamedTuple):
    """Changes of the normalized values in training: batch renormalization, and an adjustment."""

    averages: tuple[Any, Any] | None
    clipping: Mapping[str, Any]
    decay: Any
    adjustment: Callable[[Any], tuple[Any, Any]] | None


def _renormalization(
    corrections: _Corrections, settings: _Settings, mean: Any, variance: Any
) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Makes factor and summand of batch renormalization, if it is asked for, and its updates."""
    if corrections.averages is None:
        return [], []
    decay = _when_training(settings, lambda: corrections.decay, lambda: 1.0)
    change = renormalize(
        mean, variance + settings.epsilon, corrections.averages, corrections.clipping, decay
    )
    return [(change.scale, change.shift)], change.updates


def _only_in_training(settings: _Settings, change: tuple[Any, Any]) -> tuple[Any, Any]:
    factor, summand = map(tf.convert_to_tensor, change)
    return (
        _when_training(settings, lambda: factor, lambda: tf.ones_like(factor)),
        _when_training(settings, lambda: summand, lambda: tf.zeros_like(summand)),
    )


def _normalized(
    inputs: Any,
    parameters: _Parameters,
    settings: _Settings,
    batch_weights: Any,
    corrections: _Corrections,
) -> Any:
    """Normalizes by the moments, for any rank."""
    shape = [1] * inputs.shape.rank
    shape[settings.axis] = -1

    def along_axis(value: Any) -> Any:
        return tf.reshape(tf.cast(value, inputs.dtype), shape)

    changes = []
    mean, variance = parameters.moving_mean, parameters.moving_variance
    if _may_train(settings):
        moments = _moments(inputs, batch_weights, settings.axis, mean.dtype.base_dtype)
        renormalized, updates = _renormalization(corrections, settings, *moments)
        changes += [(along_axis(factor), along_axis(summand)) for factor, summand in renormalized]
        if corrections.adjustment is not None:
            changes.append(corrections.adjustment(tf.shape(inputs)))
        changes = [_only_in_training(settings, change) for change in changes]
        with tf.control_dependencies(updates):
            mean, variance = _chosen_moments(parameters, settings, *map(tf.identity, moments))
    factor = None if parameters.gamma is None else along_axis(parameters.gamma)
    summand = None if parameters.beta is None else along_axis(parameters.beta)
    for change_factor, change_summand in reversed(changes):
        summand = _sum(summand, change_summand if factor is None else factor * change_summand)
        factor = change_factor if factor is None else factor * change_factor
    return tf.nn.batch_normalization(
        inputs, along_axis(mean), along_axis(variance), summand, factor, settings.epsilon
    )


def _sum(first: Any, second: Any) -> Any:
    return second if first is None else first + second


def _moments(inputs: Any, weights: Any, axis: int, dtype: Any) -> tuple[Any, Any]:
    """Computes mean and variance of each channel, over examples that may have weights."""
    axes = [each for each in range(inputs.shape.rank) if each != axis % inputs.shape.rank]
    values = tf.cast(inputs, dtype)
    if weights is None:
        return tf.nn.moments(values, axes)
    per_example = tf.reshape(weights, [-1] + [1] * (inputs.shape.rank - 1))
    return tf.nn.weighted_moments(values, axes, tf.cast(per_example, dtype))


def _chosen_moments(parameters: _Parameters, settings: _Settings, mean: Any, variance: Any) -> Any:
    """Returns the batch's moments in training, else the averages, and has the latter updated."""

    def in_training() -> list[Any]:
        if settings.updates_collections is not None:
            return [tf.identity(mean), tf.identity(variance)]
        with tf.control_dependencies(_updates(parameters, settings, mean, variance)):
            return [tf.identity(mean), tf.identity(variance)]

    if settings.updates_collections is not None:
        _collect_updates(parameters, settings, mean, variance)
    return _when_training(
        settings,
        in_training,
        lambda: [tf.identity(average) for average in parameters[2:]],
    )
