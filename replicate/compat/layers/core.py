"""Dense layers, dropout and flattening."""

from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.base import Layer
from replicate.compat.layers.conditions import choose
from replicate.compat.layers.functional import functional_form
from replicate.compat.layers.geometry import CHANNELS_FIRST, checked_data_format
from replicate.compat.layers.input_spec import InputSpec

v1 = tf.compat.v1
_ZEROS = v1.zeros_initializer()


class Dense(Layer):
    """Fully connected layer: activation(inputs · kernel + bias), along the last axis.

    Variables: `kernel` [inputs, units] and `bias` [units].
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = _ZEROS,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a layer without variables.

        Args:
          units: Number of outputs.
          activation: Function of the outputs, or its name.
          use_bias: False to leave out the bias.
          kernel_initializer: Initializer; None for the scope's, or Glorot's uniform one.
          bias_initializer: Initializer of the bias.
          kernel_regularizer: Function of the kernel to a loss.
          bias_regularizer: Function of the bias to a loss.
          activity_regularizer: Function of the outputs to a loss, which is divided by the batch.
          kernel_constraint: Function of the kernel, applied after an optimizer's step.
          bias_constraint: Function of the bias, applied after an optimizer's step.
          trainable: False to keep the variables from being trained.
          name: Name of the variable scope.
          **kwargs: Further arguments of `Layer`.
        """
        super().__init__(
            trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs
        )
        self.units = int(units)
        self.activation = by_name.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = by_name.initializer(kernel_initializer)
        self.bias_initializer = by_name.initializer(bias_initializer)
        self.kernel_regularizer = by_name.regularizer(kernel_regularizer)
        self.bias_regularizer = by_name.regularizer(bias_regularizer)
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias. Raises ValueError if the last axis has no known size."""
        dtype = tf.as_dtype(self.dtype or tf.float32)
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(
                f"Layer {self.name} (Dense) got {dtype.name} inputs: it needs floating-point ones."
            )
        shape = tf.TensorShape(input_shape)
        size = None if shape.rank is None else shape.as_list()[-1]
        if size is None:
            raise ValueError(
                "The last dimension of the inputs to a Dense layer must be known: layer "
                f"{self.name} got shape {shape}."
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel",
            shape=[size, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Computes the outputs [..., units] of inputs [..., size]."""
        rows = tf.cast(inputs, self.dtype)
        if rows.shape.rank is None or rows.shape.rank > 2:
            outputs = tf.tensordot(rows, self.kernel, [[rows.shape.rank - 1], [0]])
            outputs.set_shape(self.compute_output_shape(rows.shape))
        else:
            outputs = tf.matmul(rows, self.kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape with `units` in the last axis."""
        shape = tf.TensorShape(input_shape).with_rank_at_least(2)
        return shape[:-1].concatenate(self.units)


class Dropout(Layer):
    """Sets values to zero in training, and scales the others by 1 / (1 - rate)."""

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
          rate: Probability in [0, 1) that a value becomes zero; a number or a Tensor.
          noise_shape: Shape of the choices, broadcast to the inputs; sizes that are None are those
            of the inputs.
          seed: Seed of the operation.
          name: Name of the scope.
          **kwargs: Further arguments of `Layer`.

        Raises:
          ValueError: The rate is a number outside of [0, 1).
        """
        super().__init__(name=name, **kwargs)
        if isinstance(rate, int | float) and not 0 <= rate < 1:
            raise ValueError(f"Dropout got rate={rate}: it is a probability in [0, 1).")
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Computes the outputs, of the shape of the inputs.

        Args:
          inputs: Tensor.
          training: True to drop values; a bool or a Tensor.
        """
        return choose(training, lambda: self._dropped(inputs), lambda: tf.identity(inputs))

    def _dropped(self, inputs: Any) -> Any:
        shape = self._noise_shape(inputs)
        return tf.nn.dropout(inputs, rate=self.rate, noise_shape=shape, seed=self.seed)

    def _noise_shape(self, inputs: Any) -> Any:
        if not isinstance(self.noise_shape, list | tuple):
            return self.noise_shape
        if None not in self.noise_shape:
            return self.noise_shape
        sizes = tf.shape(inputs)
        return [sizes[axis] if n is None else n for axis, n in enumerate(self.noise_shape)]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the inputs."""
        return tf.TensorShape(input_shape)


class Flatten(Layer):
    """Makes rows of examples: all axes but the first one become one."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        """Makes the layer.

        Args:
          data_format: "channels_first" to put the channels of axis 1 last, in each example.
          **kwargs: Further arguments of `Layer`.

        Raises:
          ValueError: The data format is another text.
        """
        super().__init__(**kwargs)
        self.data_format = checked_data_format(data_format or "channels_last")
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """Computes the outputs [batch, values]."""
        rank = inputs.shape.rank
        if self.data_format == CHANNELS_FIRST and rank is not None and rank > 1:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        if rank == 1:
            outputs = tf.expand_dims(inputs, 1)
        elif rank is None or None in inputs.shape.as_list()[1:]:
            known_batch = None if rank is None else inputs.shape.as_list()[0]
            batch = tf.shape(inputs)[0] if known_batch is None else known_batch
            outputs = tf.reshape(inputs, [batch, -1])
        else:
            sizes = inputs.shape.as_list()
            outputs = tf.reshape(inputs, [-1, int(np.prod(sizes[1:], dtype=int))])
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns [batch, product of the other axes], with None for what is not known."""
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            return tf.TensorShape([None, None])
        batch, *others = shape.as_list()
        return tf.TensorShape([batch, None if None in others else int(np.prod(others, dtype=int))])


dense = functional_form(Dense, "dense")
dropout = functional_form(Dropout, "dropout", has_reuse=False, training_before="name")


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Makes rows of examples; arguments and errors are those of `Flatten`."""
    return Flatten(data_format=data_format, name=name)(inputs)
