"""Transposed convolutions, which make larger images of small ones."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate.compat.layers.convolution import ZEROS, Conv2D, Conv3D, Convolution
from replicate.compat.layers.functional import functional_form
from replicate.compat.layers.geometry import (
    format_of_tensorflow,
    spatial_sizes,
    transposed_size,
    with_channels,
)

v1 = tf.compat.v1


class _TransposedConvolution(Convolution):
    """Base of the layers: subclasses say over how many axes they run, and by what.

    Variables: `kernel` [window..., filters, inputs] and `bias` [filters].
    """

    transposed_function: Callable[..., Any]

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
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
        """Makes a layer without variables; arguments and errors are those of `Convolution`."""
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **kwargs,
        )

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias. Raises ValueError if the number of channels is not known."""
        channels = self._take_channels(input_shape)
        self.kernel = self.add_weight(
            "kernel",
            shape=[*self.kernel_size, self.filters, channels],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self._add_bias()
        self.built = True

    def _convolution_op(self, inputs: Any, kernel: Any) -> Any:
        sizes = tf.shape(inputs)
        known = inputs.shape.as_list()
        now = [sizes[axis] if size is None else size for axis, size in enumerate(known)]
        spatial = self._transposed(spatial_sizes(now, self.data_format))
        shape = with_channels(now[0], spatial, self.filters, self.data_format)
        return type(self).transposed_function(
            inputs,
            kernel,
            tf.stack(shape),
            with_channels(1, self.strides, 1, self.data_format),
            padding=self._padding_of_tensorflow(),
            data_format=format_of_tensorflow(self.data_format, self.rank),
        )

    def _transposed(self, spatial: list[Any]) -> list[Any]:
        axes = zip(spatial, self.kernel_size, self.strides, strict=True)
        return [
            transposed_size(size, window, self.padding, stride) for size, window, stride in axes
        ]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs."""
        sizes = tf.TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        spatial = self._transposed(spatial_sizes(sizes, self.data_format))
        return tf.TensorShape(with_channels(sizes[0], spatial, self.filters, self.data_format))


class Conv2DTranspose(_TransposedConvolution, Conv2D):
    """Transposed convolution over [batch, height, width, channels]."""

    transposed_function = staticmethod(v1.nn.conv2d_transpose)


class Conv3DTranspose(_TransposedConvolution, Conv3D):
    """Transposed convolution over [batch, depth, height, width, channels]."""

    transposed_function = staticmethod(v1.nn.conv3d_transpose)


conv2d_transpose = functional_form(Conv2DTranspose, "conv2d_transpose")
conv3d_transpose = functional_form(Conv3DTranspose, "conv3d_transpose")
