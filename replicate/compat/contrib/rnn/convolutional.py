"""LSTM cells over images: Shi et al. (2015), section 3.1, without peepholes."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.states import LSTMStateTuple

v1 = tf.compat.v1


class ConvLSTMCell(RNNCell):
    """An LSTM cell whose maps are convolutions over one, two or three axes of space.

    Variables: kernel [*kernel_shape, channels of inputs and outputs, 4·output_channels], and biases
    [4·output_channels], zeros at first.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        """Keeps the settings.

        Args:
          conv_ndims: Number of axes of space: 1, 2 or 3.
          input_shape: Shape of the inputs without the batch, [*space, channels].
          output_channels: Channels of the cell.
          kernel_shape: Size of the kernel along each axis of space.
          use_bias: True to add a bias.
          skip_connection: True to put the inputs beside the outputs.
          forget_bias: Added to the forget gate.
          initializers: Not used, as in TensorFlow 1.
          name: Name of the scope.

        Raises:
          ValueError: The input_shape has not an entry for each axis of space and the channels.
        """
        super().__init__(name=name)
        del initializers
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(
                f"ConvLSTMCell got input_shape={input_shape}, but with conv_ndims={conv_ndims} it "
                f"takes {conv_ndims} sizes and the channels."
            )
        self._conv_ndims = conv_ndims
        self._space = list(input_shape[:-1])
        self._output_channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._skip_connection = skip_connection
        self._forget_bias = forget_bias
        self._all_channels = output_channels + (input_shape[-1] if skip_connection else 0)

    @property
    def output_size(self) -> Any:
        """Shape of the outputs without the batch."""
        return tf.TensorShape([*self._space, self._all_channels])

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple of the shapes of cell and outputs."""
        cell = tf.TensorShape([*self._space, self._output_channels])
        return LSTMStateTuple(cell, self.output_size)

    def call(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, *space, channels] and a state (c, h)."""
        cell, hidden = state
        gates = self._convolved(tf.concat([inputs, hidden], -1))
        add, new, forget, output = tf.split(gates, 4, axis=self._conv_ndims + 1)
        cell = tf.sigmoid(forget + self._forget_bias) * cell
        cell += tf.sigmoid(add) * tf.tanh(new)
        hidden = tf.tanh(cell) * tf.sigmoid(output)
        if self._skip_connection:
            hidden = tf.concat([hidden, inputs], -1)
        return hidden, LSTMStateTuple(cell, hidden)

    def _convolved(self, values: Tensor) -> Tensor:
        columns = 4 * self._output_channels
        shape = [*self._kernel_shape, values.shape.as_list()[-1], columns]
        kernel = v1.get_variable("kernel", shape, values.dtype)
        outputs = tf.nn.convolution(values, kernel, padding="SAME")
        if not self._use_bias:
            return outputs
        zeros = v1.zeros_initializer()
        return outputs + v1.get_variable("biases", [columns], values.dtype, initializer=zeros)


class Conv1DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` over one axis."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        """Keeps the settings, those of `ConvLSTMCell` without conv_ndims."""
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` over two axes."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        """Keeps the settings, those of `ConvLSTMCell` without conv_ndims."""
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` over three axes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        """Keeps the settings, those of `ConvLSTMCell` without conv_ndims."""
        super().__init__(conv_ndims=3, name=name, **kwargs)
