"""Batch normalization.

References:
  Ioffe and Szegedy (2015), Batch Normalization, https://arxiv.org/abs/1502.03167
  Ioffe (2017), Batch Renormalization, https://arxiv.org/abs/1702.03275
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.base import Layer
from replicate.compat.layers.conditions import choose, known_value
from replicate.compat.layers.functional import functional_form
from replicate.compat.layers.input_spec import InputSpec
from replicate.compat.layers.moving_average import move_towards
from replicate.compat.layers.renormalization import Renormalization

v1 = tf.compat.v1
_HALF = (tf.float16, tf.bfloat16)
_FUSED = {(4, 1): "NCHW", (4, 3): "NHWC", (5, 1): "NCDHW", (5, 4): "NDHWC"}
_ZEROS = v1.zeros_initializer()
_ONES = v1.ones_initializer()


class BatchNormalization(Layer):
    """Normalizes values over the batch, and keeps moving averages for inference.

    Variables, one value for each channel: `gamma`, `beta`, `moving_mean` and `moving_variance`, and
    with `renorm` also `moving_stddev`, `renorm_mean` and `renorm_stddev`. The updates of the
    moving averages are in the collection UPDATE_OPS.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: Any = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = _ZEROS,
        gamma_initializer: Any = _ONES,
        moving_mean_initializer: Any = _ZEROS,
        moving_variance_initializer: Any = _ONES,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Mapping[str, Any] | None = None,
        renorm_momentum: Any = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Callable[[Any], tuple[Any, Any]] | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a layer without variables.

        Args:
          axis: Axis of the channels, or a list of axes that each keep their own statistics.
          momentum: Weight of the old moving averages.
          epsilon: Added to the variance.
          center: False to leave out `beta`, which is added.
          scale: False to leave out `gamma`, the factor.
          beta_initializer: Initializer of `beta`.
          gamma_initializer: Initializer of `gamma`.
          moving_mean_initializer: Initializer of `moving_mean`.
          moving_variance_initializer: Initializer of `moving_variance`.
          beta_regularizer: Function of `beta` to a loss.
          gamma_regularizer: Function of `gamma` to a loss.
          beta_constraint: Function of `beta`, applied after an optimizer's step.
          gamma_constraint: Function of `gamma`, applied after an optimizer's step.
          renorm: True for batch renormalization.
          renorm_clipping: Limits of its corrections by "rmin", "rmax" and "dmax".
          renorm_momentum: Weight of its old averages.
          fused: True for TensorFlow's fused operation, False for others, None for the fused one
            where it applies: rank 4 or 5, and neither renorm, virtual batches nor adjustment.
          trainable: False to keep `beta` and `gamma` from being trained, and updates out of
            UPDATE_OPS.
          virtual_batch_size: Number of examples whose statistics are computed together; a divisor
            of the batch's size.
          adjustment: Function of the shape of the inputs, a Tensor, to a factor and a summand of
            the normalized values in training.
          name: Name of the variable scope.
          **kwargs: Further arguments of `Layer`.

        Raises:
          ValueError: Arguments contradict each other.
        """
        super().__init__(trainable=trainable, name=name, **kwargs)
        if fused and (renorm or virtual_batch_size is not None or adjustment is not None):
            raise ValueError(
                f"Layer {self.name} got fused=True, which works neither with renorm nor with "
                "virtual_batch_size or adjustment."
            )
        if renorm and virtual_batch_size is not None:
            raise ValueError(f"Layer {self.name} got both renorm and virtual_batch_size.")
        self.axis = list(axis) if isinstance(axis, list | tuple) else axis
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = by_name.initializer(beta_initializer)
        self.gamma_initializer = by_name.initializer(gamma_initializer)
        self.moving_mean_initializer = by_name.initializer(moving_mean_initializer)
        self.moving_variance_initializer = by_name.initializer(moving_variance_initializer)
        self.beta_regularizer = by_name.regularizer(beta_regularizer)
        self.gamma_regularizer = by_name.regularizer(gamma_regularizer)
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.fused = fused
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        self._renormalization: Renormalization | None = None
        if renorm:
            self._renormalization = Renormalization(epsilon, renorm_clipping or {}, renorm_momentum)

    def build(self, input_shape: Any) -> None:
        """Makes the variables. Raises ValueError if the size of an axis is not known."""
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError(f"Layer {self.name} got inputs of unknown rank.")
        axes = self._checked_axes(shape)
        sizes = shape.as_list()
        self.axis = axes
        self.fused = self._is_fused(shape.rank)
        self.input_spec = InputSpec(ndim=shape.rank, axes={axis: sizes[axis] for axis in axes})
        if len(axes) == 1 and self.virtual_batch_size is None:
            size = [sizes[axes[0]]]
        else:
            size = [sizes[axis] if axis in axes else 1 for axis in range(shape.rank)]
            if self.virtual_batch_size is not None:
                size.insert(1, 1)
                self.axis = [axis + 1 for axis in axes]
        self._add_variables(size)
        self.built = True

    def _checked_axes(self, shape: Any) -> list[int]:
        given = self.axis if isinstance(self.axis, list) else [self.axis]
        axes = [axis + shape.rank if axis < 0 else axis for axis in given]
        if len(set(axes)) != len(axes) or not all(0 <= axis < shape.rank for axis in axes):
            raise ValueError(f"Layer {self.name} got axis={given} for inputs of shape {shape}.")
        if self.virtual_batch_size is not None and 0 in axes:
            raise ValueError(f"Layer {self.name} got axis={given} and virtual_batch_size.")
        for axis in axes:
            if shape.as_list()[axis] is None:
                raise ValueError(
                    f"Layer {self.name} needs to know the size of axis {axis} of its inputs, whose "
                    f"shape is {shape}."
                )
        return axes

    def _is_fused(self, rank: int) -> bool:
        can_be = len(self.axis) == 1 and (rank, self.axis[0]) in _FUSED
        if self.fused and not can_be:
            raise ValueError(
                f"Layer {self.name} got fused=True, which needs inputs of rank 4 or 5 and axis 1 "
                f"or the last one; got rank {rank} and axis {self.axis}."
            )
        by_default = (
            can_be
            and not self.renorm
            and self.virtual_batch_size is None
            and self.adjustment is None
            and self.dtype != "float64"
        )
        return by_default if self.fused is None else bool(self.fused)

    def _add_variables(self, size: list[int]) -> None:
        is_half = tf.as_dtype(self.dtype) in _HALF
        settings: dict[str, Any] = {"shape": size, "dtype": tf.float32 if is_half else self.dtype}
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                **settings,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                **settings,
            )

        def moving(name: str, initializer: Any) -> Any:
            return self.add_weight(
                name,
                initializer=initializer,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
                **settings,
            )

        with self._without_partitioner():
            self.moving_mean = moving("moving_mean", self.moving_mean_initializer)
            self.moving_variance = moving("moving_variance", self.moving_variance_initializer)
            if self._renormalization is not None:
                self._renormalization.add_variables(
                    moving, self.moving_mean_initializer, self.moving_variance_initializer
                )
                self.moving_stddev = self._renormalization.moving_stddev
                self.renorm_mean = self._renormalization.mean
                self.renorm_stddev = self._renormalization.stddev

    @contextlib.contextmanager
    def _without_partitioner(self) -> Iterator[None]:
        """Keeps the scope's partitioner from the moving averages."""
        if self._scope is None:
            yield
            return
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)
        try:
            yield
        finally:
            self._scope.set_partitioner(partitioner)

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Computes the outputs, of the shape of the inputs.

        Args:
          inputs: Tensor.
          training: True to normalize by the batch and to update the averages, False to normalize by
            the averages; a bool or a Tensor.
        """
        if self.fused:
            outputs = self._fused(inputs, training)
        elif self.virtual_batch_size is None:
            outputs = self._normalized(inputs, training)
        else:
            groups = self._in_groups(inputs)
            outputs = tf.reshape(self._normalized(groups, training), tf.shape(inputs))
        outputs.set_shape(inputs.shape)
        return outputs

    def _in_groups(self, inputs: Any) -> Any:
        """Returns inputs of the shape [examples of a group, groups, further axes]."""
        sizes = tf.concat([[self.virtual_batch_size, -1], tf.shape(inputs)[1:]], axis=0)
        groups = tf.reshape(inputs, sizes)
        groups.set_shape([self.virtual_batch_size, None, *inputs.shape.as_list()[1:]])
        return groups

    def _fused(self, inputs: Any, training: Any) -> Any:
        channels = int(inputs.shape[self.axis[0]])
        gamma = tf.ones([channels]) if self.gamma is None else self.gamma
        beta = tf.zeros([channels]) if self.beta is None else self.beta
        settings = {
            "epsilon": self.epsilon,
            "data_format": _FUSED[inputs.shape.rank, self.axis[0]],
        }
        outputs, mean, variance = choose(
            training,
            lambda: v1.nn.fused_batch_norm(inputs, gamma, beta, **settings),
            lambda: v1.nn.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                is_training=False,
                **settings,
            ),
        )
        if known_value(training) is not False:
            momentum = self.momentum
            if known_value(training) is None:
                momentum = choose(training, lambda: tf.constant(self.momentum), lambda: tf.ones([]))
            self.add_update(move_towards(self.moving_mean, mean, momentum))
            self.add_update(move_towards(self.moving_variance, variance, momentum))
        return outputs

    def _normalized(self, inputs: Any, training: Any) -> Any:
        """Normalizes without the fused operation, halves in single precision."""
        dtype = inputs.dtype
        values = tf.cast(inputs, tf.float32) if dtype in _HALF else inputs
        scale, offset = self._broadcast(self.gamma, values), self._broadcast(self.beta, values)
        if known_value(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            scale, offset = self._adjusted(values, training, scale, offset)
            of_batch = self._moments(values)
            mean = choose(training, lambda: of_batch[0], lambda: self._average("moving_mean"))
            variance = choose(
                training, lambda: of_batch[1], lambda: self._average("moving_variance")
            )
            moments = mean, variance
            if self._renormalization is not None:
                factor, summand, moments = self._renormalization.corrections(
                    mean, variance, training
                )
                factor, summand = (self._broadcast(each, values) for each in (factor, summand))
                scale, offset = _composed(factor, summand, scale, offset)
            self._update(*moments, training)
        outputs = tf.nn.batch_normalization(
            values,
            self._broadcast(mean, values),
            self._broadcast(variance, values),
            offset,
            scale,
            self.epsilon,
        )
        return tf.cast(outputs, dtype)

    def _average(self, name: str) -> Any:
        return tf.convert_to_tensor(getattr(self, name))

    def _moments(self, values: Any) -> tuple[Any, Any]:
        """Returns mean and variance of the batch, of each group of it with virtual batches."""
        has_groups = self.virtual_batch_size is not None
        kept = {*self.axis, 1} if has_groups else set(self.axis)
        axes = [axis for axis in range(values.shape.rank) if axis not in kept]
        return tf.nn.moments(values, axes, keepdims=has_groups or len(self.axis) > 1)

    def _broadcast(self, value: Any, values: Any) -> Any:
        """Returns one value for each channel, in a shape that fits the inputs."""
        rank = values.shape.rank
        if value is None or len(value.shape) == rank or self.axis == [rank - 1]:
            return value
        return tf.reshape(value, [-1 if axis in self.axis else 1 for axis in range(rank)])

    def _adjusted(self, values: Any, training: Any, scale: Any, offset: Any) -> tuple[Any, Any]:
        if self.adjustment is None:
            return scale, offset
        factor, summand = self.adjustment(tf.shape(values))
        factor, summand = tf.convert_to_tensor(factor), tf.convert_to_tensor(summand)
        factor = choose(training, lambda: factor, lambda: tf.ones_like(factor))
        summand = choose(training, lambda: summand, lambda: tf.zeros_like(summand))
        return _composed(factor, summand, scale, offset)

    def _update(self, mean: Any, variance: Any, training: Any) -> None:
        """Adds the updates of the moving averages."""
        if self.virtual_batch_size is not None:
            mean, variance = (
                tf.reduce_mean(each, axis=1, keepdims=True) for each in (mean, variance)
            )

        def move(variable: Any, value: Any) -> Any:
            return choose(
                training,
                lambda: move_towards(variable, value, self.momentum),
                lambda: tf.convert_to_tensor(variable),
            )

        self.add_update(move(self.moving_mean, mean))
        renormalization = self._renormalization
        if renormalization is None:
            self.add_update(move(self.moving_variance, variance))
            return
        self.add_update(
            choose(
                training,
                lambda: renormalization.move_variance(
                    self.moving_variance, variance, self.momentum
                ),
                lambda: tf.convert_to_tensor(self.moving_variance),
            )
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the inputs."""
        return tf.TensorShape(input_shape)


def _composed(factor: Any, summand: Any, scale: Any, offset: Any) -> tuple[Any, Any]:
    """Returns scale and offset of `scale * (factor * x + summand) + offset`."""
    if scale is not None:
        factor, summand = factor * scale, summand * scale
    return factor, summand if offset is None else summand + offset


batch_normalization = functional_form(
    BatchNormalization,
    "batch_normalization",
    training_before="trainable",
    last=(
        *("renorm", "renorm_clipping", "renorm_momentum"),
        *("fused", "virtual_batch_size", "adjustment"),
    ),
)
