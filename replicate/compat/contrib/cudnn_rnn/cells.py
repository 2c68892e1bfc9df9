"""Cells that compute what cuDNN does, on any device."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.checks import known_width
from replicate.compat.cells.gru import GRUCell
from replicate.compat.cells.linear import affine
from replicate.compat.contrib.rnn.block_cells import LSTMBlockCell

v1 = tf.compat.v1


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An `LSTMBlockCell` without forget_bias, in the scope cudnn_compatible_lstm_cell."""

    def __init__(self, num_units: int, reuse: bool | None = None) -> None:
        """Keeps the size of the cell; with reuse it shares the variables of a cell in its scope."""
        super().__init__(num_units, forget_bias=0.0, reuse=reuse, name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(GRUCell):
    """A GRU whose reset gate follows the map of the state, in place of preceding it.

    h' = u · h + (1 − u) · tanh(x · W + b + r · (h · R + c)). Variables: gates/kernel and gates/bias
    as those of GRUCell; kernel and bias in the scopes candidate/input_projection and
    candidate/hidden_projection.
    """

    def __init__(
        self,
        num_units: int,
        reuse: bool | None = None,
        kernel_initializer: Any = None,
        dtype: Any = None,
    ) -> None:
        """Keeps the settings; they are those of GRUCell."""
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer, dtype=dtype)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units, start = self._num_units, self._kernel_initializer
        width = known_width("CudnnCompatibleGRUCell", inputs_shape)
        ones, zeros = v1.constant_initializer(1.0), v1.zeros_initializer()
        self._gate_kernel = self.add_variable(
            "gates/kernel", shape=[width + units, 2 * units], initializer=start
        )
        self._gate_bias = self.add_variable("gates/bias", shape=[2 * units], initializer=ones)
        self._input_kernel, self._hidden_kernel = (
            self.add_variable(
                f"candidate/{part}_projection/kernel", shape=[rows, units], initializer=start
            )
            for part, rows in (("input", width), ("hidden", units))
        )
        self._input_bias, self._hidden_bias = (
            self.add_variable(f"candidate/{part}_projection/bias", shape=[units], initializer=zeros)
            for part in ("input", "hidden")
        )
        self.built = True

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units]."""
        gates = tf.sigmoid(affine([inputs, state], self._gate_kernel, self._gate_bias))
        reset, update = tf.split(gates, 2, axis=1)
        of_inputs = affine([inputs], self._input_kernel, self._input_bias)
        of_state = affine([state], self._hidden_kernel, self._hidden_bias)
        state = (1 - update) * tf.tanh(of_inputs + reset * of_state) + update * state
        return state, state
