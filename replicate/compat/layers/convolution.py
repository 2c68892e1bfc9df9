"""Convolutions over one, two and three axes, and what their relatives share."""

from typing import Any

import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.base import Layer
from replicate.compat.layers.functional import functional_form
from replicate.compat.layers.geometry import (
    CHANNELS_FIRST,
    as_tuple,
    channel_axis,
    checked_data_format,
    checked_padding,
    format_of_tensorflow,
    output_size,
    spatial_sizes,
    with_channels,
)
from replicate.compat.layers.input_spec import InputSpec

v1 = tf.compat.v1
ZEROS = v1.zeros_initializer()


class Convolution(Layer):
    """Base of convolutions: subclasses say over how many axes they run.

    Variables: `kernel` [window..., inputs, filters] and `bias` [filters].
    """

    rank: int

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
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
          filters: Number of channels of the outputs.
          kernel_size: Size of the window: an integer, or one for each spatial axis.
          strides: Steps of the window: an integer, or one for each spatial axis.
          padding: "valid" or "same", over one axis also "causal".
          data_format: "channels_last" or "channels_first".
          dilation_rate: Distance of the window's values: an integer, or one for each spatial axis.
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

        Raises:
          ValueError: A size, the padding or the data format is none of these, or both strides and
            dilation are above 1.
        """
        super().__init__(
            trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs
        )
        self.filters = filters if filters is None else int(filters)
        self.kernel_size = as_tuple(kernel_size, self.rank, "kernel_size")
        self.strides = as_tuple(strides, self.rank, "strides")
        self.padding = checked_padding(padding, may_be_causal=self.rank == 1)
        self.data_format = checked_data_format(data_format)
        self.dilation_rate = as_tuple(dilation_rate, self.rank, "dilation_rate")
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"{type(self).__name__} got strides={self.strides} and "
                f"dilation_rate={self.dilation_rate}: only one of them may be above 1."
            )
        self.activation = by_name.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = by_name.initializer(kernel_initializer)
        self.bias_initializer = by_name.initializer(bias_initializer)
        self.kernel_regularizer = by_name.regularizer(kernel_regularizer)
        self.bias_regularizer = by_name.regularizer(bias_regularizer)
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.bias: Any = None
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias. Raises ValueError if the number of channels is not known."""
        channels = self._take_channels(input_shape)
        self.kernel = self.add_weight(
            "kernel",
            shape=[*self.kernel_size, channels, self.filters],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self._add_bias()
        self.built = True

    def _take_channels(self, input_shape: Any) -> int:
        """Returns the number of channels of the inputs, which later inputs must have."""
        shape = tf.TensorShape(input_shape)
        axis = channel_axis(self.data_format)
        channels = None if shape.rank is None else shape.as_list()[axis]
        if channels is None:
            raise ValueError(
                f"The channel dimension of the inputs, axis {axis}, must be known: layer "
                f"{self.name} got shape {shape}."
            )
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return channels

    def _add_bias(self) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def call(self, inputs: Any) -> Any:
        """Computes the outputs: [batch, spatial axes, filters], or the filters in axis 1."""
        outputs = self._convolution_op(self._padded(inputs), self.kernel)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._activated(self._with_bias(outputs))

    def _padded(self, inputs: Any) -> Any:
        """Pads the past of causal inputs with zeros."""
        if self.padding != "causal":
            return inputs
        past = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        return tf.pad(inputs, with_channels([0, 0], [[past, 0]], [0, 0], self.data_format))

    def _padding_of_tensorflow(self) -> str:
        return "VALID" if self.padding == "causal" else self.padding.upper()

    def _convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """Computes the convolution alone, without bias and activation."""
        return tf.nn.convolution(
            inputs,
            kernel,
            strides=list(self.strides),
            padding=self._padding_of_tensorflow(),
            data_format=format_of_tensorflow(self.data_format, self.rank),
            dilations=list(self.dilation_rate),
            name=f"Conv{self.rank}D",
        )

    def _with_bias(self, outputs: Any) -> Any:
        if not self.use_bias:
            return outputs
        if self.data_format == CHANNELS_FIRST:
            if self.rank == 1:
                return outputs + tf.reshape(self.bias, [1, self.filters, 1])
            return tf.nn.bias_add(outputs, self.bias, data_format="NCHW")
        return tf.nn.bias_add(outputs, self.bias, data_format="NHWC")

    def _activated(self, outputs: Any) -> Any:
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs."""
        sizes = tf.TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        axes = zip(
            spatial_sizes(sizes, self.data_format),
            self.kernel_size,
            self.strides,
            self.dilation_rate,
            strict=True,
        )
        spatial = [
            output_size(size, window, self.padding, stride, dilation)
            for size, window, stride, dilation in axes
        ]
        return tf.TensorShape(with_channels(sizes[0], spatial, self.filters, self.data_format))


class Conv1D(Convolution):
    """Convolution over [batch, steps, channels]."""

    rank = 1


class Conv2D(Convolution):
    """Convolution over [batch, height, width, channels]."""

    rank = 2


class Conv3D(Convolution):
    """Convolution over [batch, depth, height, width, channels]."""

    rank = 3


conv1d = functional_form(Conv1D, "conv1d")
conv2d = functional_form(Conv2D, "conv2d")
conv3d = functional_form(Conv3D, "conv3d")
