"""Pooling: the largest value, or the mean, of each window."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

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


class _Pooling(Layer):
    """Base of the layers: subclasses say over how many axes they pool, and by what."""

    rank: int
    pool_function: Callable[..., Any]

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
          pool_size: Size of the window: an integer, or one for each spatial axis.
          strides: Steps of the window: an integer, or one for each spatial axis.
          padding: "valid" or "same".
          data_format: "channels_last" or "channels_first".
          name: Name of the scope.
          **kwargs: Further arguments of `Layer`.

        Raises:
          ValueError: One of the arguments is none of these.
        """
        super().__init__(name=name, **kwargs)
        self.pool_size = as_tuple(pool_size, self.rank, "pool_size")
        self.strides = as_tuple(pool_size if strides is None else strides, self.rank, "strides")
        self.padding = checked_padding(padding)
        self.data_format = checked_data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """Computes the outputs: [batch, spatial axes, channels], or the channels in axis 1."""
        if self.rank == 1:
            return self._pooled_rows(inputs)
        if self.rank == 3 and self.data_format == CHANNELS_FIRST:  # CPUs take channels last.
            outputs = self._pool(tf.transpose(inputs, [0, 2, 3, 4, 1]), "NDHWC")
            return tf.transpose(outputs, [0, 4, 1, 2, 3])
        return self._pool(inputs, format_of_tensorflow(self.data_format, self.rank))

    def _pooled_rows(self, inputs: Any) -> Any:
        axis = 3 if self.data_format == CHANNELS_FIRST else 2
        images = tf.expand_dims(inputs, axis)
        outputs = self._pool(images, format_of_tensorflow(self.data_format, 2), one_more=(1,))
        return tf.squeeze(outputs, [axis])

    def _pool(self, inputs: Any, data_format: str, one_more: tuple[int, ...] = ()) -> Any:
        def in_format(sizes: tuple[int, ...]) -> list[int]:
            order = "channels_first" if data_format[1] == "C" else "channels_last"
            return with_channels(1, [*sizes, *one_more], 1, order)

        return type(self).pool_function(
            inputs,
            ksize=in_format(self.pool_size),
            strides=in_format(self.strides),
            padding=self.padding.upper(),
            data_format=data_format,
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs."""
        sizes = tf.TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        spatial = [
            output_size(size, window, self.padding, stride)
            for size, window, stride in zip(
                spatial_sizes(sizes, self.data_format), self.pool_size, self.strides, strict=True
            )
        ]
        channels = sizes[channel_axis(self.data_format)]
        return tf.TensorShape(with_channels(sizes[0], spatial, channels, self.data_format))


class MaxPooling1D(_Pooling):
    """Largest values of windows over [batch, steps, channels]."""

    rank = 1
    pool_function = staticmethod(v1.nn.max_pool)


class MaxPooling2D(_Pooling):
    """Largest values of windows over [batch, height, width, channels]."""

    rank = 2
    pool_function = staticmethod(v1.nn.max_pool)


class MaxPooling3D(_Pooling):
    """Largest values of windows over [batch, depth, height, width, channels]."""

    rank = 3
    pool_function = staticmethod(v1.nn.max_pool3d)


class AveragePooling1D(_Pooling):
    """Means of windows over [batch, steps, channels]."""

    rank = 1
    pool_function = staticmethod(v1.nn.avg_pool)


class AveragePooling2D(_Pooling):
    """Means of windows over [batch, height, width, channels]."""

    rank = 2
    pool_function = staticmethod(v1.nn.avg_pool)


class AveragePooling3D(_Pooling):
    """Means of windows over [batch, depth, height, width, channels]."""

    rank = 3
    pool_function = staticmethod(v1.nn.avg_pool3d)


max_pooling1d = functional_form(MaxPooling1D, "max_pooling1d", has_reuse=False)
max_pooling2d = functional_form(MaxPooling2D, "max_pooling2d", has_reuse=False)
max_pooling3d = functional_form(MaxPooling3D, "max_pooling3d", has_reuse=False)
average_pooling1d = functional_form(AveragePooling1D, "average_pooling1d", has_reuse=False)
average_pooling2d = functional_form(AveragePooling2D, "average_pooling2d", has_reuse=False)
average_pooling3d = functional_form(AveragePooling3D, "average_pooling3d", has_reuse=False)
