"""An LSTM cell whose input gate is 1 − forget gate: Greff et al. (2015), section 3, CIFG."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.linear import affine
from replicate.compat.cells.states import LSTMStateTuple
from replicate.compat.contrib.rnn.layer_norm import normalized

v1 = tf.compat.v1


class CoupledInputForgetGateLSTMCell(RNNCell):
    """c' = f · c + (1 − f) · activation(j), h' = σ(o) · activation(c').

    Variables: W_0, W_1, …, which together are [input + outputs, 3·units] with the columns of j, f
    and o; B [3·units], zeros at first; with peepholes W_F_diag and W_O_diag [units]; with num_proj
    W_P_0, …, together [units, num_proj]; with layer_norm gamma and beta [units] in the scopes
    transform, forget, output and state.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Tensor], Tensor] = tf.tanh,
        reuse: bool | None = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          use_peepholes: True to let the gates see the cell.
          initializer: Not used, as in TensorFlow 1: set that of the scope.
          num_proj: Size of the outputs. None for that of the cell, without projection.
          proj_clip: Bound of the projected outputs, None for none.
          num_unit_shards: Number of variables W.
          num_proj_shards: Number of variables W_P.
          forget_bias: Added to the forget gate.
          state_is_tuple: True for an LSTMStateTuple (c, h), False for one tensor [c, h].
          activation: Of new value and output.
          reuse: True to share the variables of a cell in the same scope.
          layer_norm: True to normalize gates and cell: Ba, Kiros and Hinton (2016), section 3.1.
          norm_gain: First value of each gamma.
          norm_shift: First value of each beta.
        """
        super().__init__(_reuse=reuse)
        del initializer
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, size of the outputs), or their sum."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """Size of the outputs."""
        return self._num_proj or self._num_units

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h)."""
        units, dtype = self._num_units, inputs.dtype
        sizes = [units, self.output_size]
        cell, hidden = state if self._state_is_tuple else tf.split(state, sizes, axis=1)
        rows = inputs.shape.as_list()[1] + self.output_size
        kernel = _sharded("W", [rows, 3 * units], dtype, self._num_unit_shards)
        bias = v1.get_variable("B", [3 * units], dtype, initializer=v1.zeros_initializer())
        gates = affine([inputs, hidden], kernel, None if self._layer_norm else bias)
        new, forget, output = (
            self._normal(values, scope)
            for values, scope in zip(
                tf.split(gates, 3, axis=1), ("transform", "forget", "output"), strict=True
            )
        )
        forget += self._forget_bias
        if self._use_peepholes:
            of_forget = v1.get_variable("W_F_diag", [units], dtype)
            of_output = v1.get_variable("W_O_diag", [units], dtype)
            forget += of_forget * cell
        kept = tf.sigmoid(forget)
        cell = self._normal(kept * cell + (1 - kept) * self._activation(new), "state")
        if self._use_peepholes:
            output += of_output * cell
        hidden = tf.sigmoid(output) * self._activation(cell)
        if self._num_proj:
            projection = _sharded("W_P", [units, self._num_proj], dtype, self._num_proj_shards)
            hidden = tf.matmul(hidden, projection)
            if self._proj_clip is not None:
                hidden = tf.clip_by_value(hidden, -self._proj_clip, self._proj_clip)
        new_state = LSTMStateTuple(cell, hidden)
        return hidden, new_state if self._state_is_tuple else tf.concat(new_state, 1)

    def _normal(self, values: Tensor, scope: str) -> Tensor:
        if not self._layer_norm:
            return values
        return normalized(values, scope, self._norm_gain, self._norm_shift)


def _sharded(name: str, shape: list[int], dtype: Any, shards: int) -> Tensor:
    """Makes variables that together are a matrix. The first ones have the rows that are left over.

    Raises:
      ValueError: There are more shards than rows.
    """
    if shards > shape[0]:
        raise ValueError(f"The variable {name} of shape {shape} cannot have {shards} shards.")
    rows, more = divmod(shape[0], shards)
    parts = [
        v1.get_variable(f"{name}_{number}", [rows + (number < more), *shape[1:]], dtype)
        for number in range(shards)
    ]
    return tf.concat(parts, 0) if shards > 1 else tf.convert_to_tensor(parts[0])
