"""Separable convolutions: each channel alone, then all channels at each place."""

from typing import Any

import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.convolution import ZEROS, Convolution
from replicate.compat.layers.functional import functional_form
from replicate.compat.layers.geometry import CHANNELS_FIRST, format_of_tensorflow, with_channels

v1 = tf.compat.v1


class _SeparableConvolution(Convolution):
    """Base of the layers: subclasses say over how many axes they run.

    Variables: `depthwise_kernel` [window..., inputs, multiplier], `pointwise_kernel`
    [1..., inputs · multiplier, filters] and `bias` [filters].
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a layer without variables.

        Each channel gets `depth_multiplier` outputs in the first step. Initializers, regularizers
        and constraints of both kernels, all other arguments and the errors are those of
        `Convolution`.
        """
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **kwargs,
        )
        self.depth_multiplier = int(depth_multiplier)
        self.depthwise_initializer = by_name.initializer(depthwise_initializer)
        self.pointwise_initializer = by_name.initializer(pointwise_initializer)
        self.depthwise_regularizer = by_name.regularizer(depthwise_regularizer)
        self.pointwise_regularizer = by_name.regularizer(pointwise_regularizer)
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        """Makes kernels and bias. Raises ValueError if the number of channels is not known."""
        channels = self._take_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            shape=[*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            shape=[*(1,) * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self._add_bias()
        self.built = True

    def _separable(self, images: Any, kernels: list[Any], strides: Any, dilations: Any) -> Any:
        """Computes convolution and bias of images [batch, height, width, channels]."""
        data_format = format_of_tensorflow(self.data_format, 2)
        outputs = v1.nn.separable_conv2d(
            images,
            *(tf.convert_to_tensor(kernel) for kernel in kernels),
            strides=with_channels(1, strides, 1, self.data_format),
            padding=self._padding_of_tensorflow(),
            rate=list(dilations),
            data_format=data_format,
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias, data_format=data_format)
        return outputs


class SeparableConv1D(_SeparableConvolution):
    """Separable convolution over [batch, steps, channels]."""

    rank = 1

    def call(self, inputs: Any) -> Any:
        """Computes the outputs [batch, steps, filters], or [batch, filters, steps]."""
        axis = 2 if self.data_format == CHANNELS_FIRST else 1
        kernels = [
            tf.expand_dims(each, 0) for each in (self.depthwise_kernel, self.pointwise_kernel)
        ]
        images = tf.expand_dims(self._padded(inputs), axis)
        # TensorFlow wants equal strides; the axis of size 1 has one place, whatever its stride is.
        outputs = self._separable(images, kernels, self.strides * 2, (1, *self.dilation_rate))
        outputs = tf.squeeze(outputs, [axis])
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._activated(outputs)


class SeparableConv2D(_SeparableConvolution):
    """Separable convolution over [batch, height, width, channels]."""

    rank = 2

    def call(self, inputs: Any) -> Any:
        """Computes the outputs [batch, height, width, filters], or the filters in axis 1."""
        kernels = [self.depthwise_kernel, self.pointwise_kernel]
        outputs = self._separable(inputs, kernels, self.strides, self.dilation_rate)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._activated(outputs)


separable_conv1d = functional_form(SeparableConv1D, "separable_conv1d")
separable_conv2d = functional_form(SeparableConv2D, "separable_conv2d")
