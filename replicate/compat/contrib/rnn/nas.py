"""The cell that a search over architectures found: Zoph and Le (2017), figure 8."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import LayerRNNCell
from replicate.compat.cells.checks import known_width
from replicate.compat.cells.states import LSTMStateTuple

v1 = tf.compat.v1
_BRANCHES = 8


class NASCell(LayerRNNCell):
    """A cell with eight branches, whose state is (c, h) as that of an LSTM.

    Variables: recurrent_kernel [outputs, 8·units] and kernel [input, 8·units]; with use_bias bias
    [8·units], zeros at first; with num_proj projection_weights [units, num_proj].
    """

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_bias: bool = False,
        reuse: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          num_proj: Size of the outputs. None for that of the cell, without projection.
          use_bias: True to add a bias.
          reuse: True to share the variables of a cell in the same scope.
          **kwargs: Further arguments of the layer, such as `name`.
        """
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units = num_units
        self._num_proj = num_proj
        self._use_bias = use_bias

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, size of the outputs)."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        """Size of the outputs."""
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        columns = _BRANCHES * self._num_units
        width = known_width("NASCell", inputs_shape)
        self.recurrent_kernel = self.add_variable("recurrent_kernel", [self.output_size, columns])
        self.kernel = self.add_variable("kernel", [width, columns])
        if self._use_bias:
            zeros = v1.zeros_initializer()
            self.bias = self.add_variable("bias", shape=[columns], initializer=zeros)
        if self._num_proj is not None:
            shape = [self._num_units, self._num_proj]
            self.projection_weights = self.add_variable("projection_weights", shape)
        self.built = True

    def call(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h)."""
        cell, hidden = state
        recurrent = tf.matmul(hidden, self.recurrent_kernel)
        if self._use_bias:
            recurrent = tf.nn.bias_add(recurrent, self.bias)
        of_inputs = tf.split(tf.matmul(inputs, self.kernel), _BRANCHES, axis=1)
        of_state = tf.split(recurrent, _BRANCHES, axis=1)
        sums = [one + other for one, other in zip(of_inputs, of_state, strict=True)]
        first = tf.tanh(tf.sigmoid(sums[0]) * tf.nn.relu(sums[1]))
        second = tf.tanh(tf.sigmoid(sums[2]) + tf.nn.relu(of_inputs[3] * of_state[3]))
        third = tf.tanh(tf.tanh(sums[4]) * tf.sigmoid(sums[5]))
        fourth = tf.sigmoid(tf.tanh(sums[6]) + tf.sigmoid(sums[7]))
        cell = tf.tanh(first + cell) * second
        hidden = tf.tanh(cell * tf.tanh(third + fourth))
        if self._num_proj is not None:
            hidden = tf.matmul(hidden, self.projection_weights)
        return hidden, LSTMStateTuple(cell, hidden)
