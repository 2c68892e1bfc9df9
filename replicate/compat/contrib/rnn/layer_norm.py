"""An LSTM cell with layer normalization and recurrent dropout."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.linear import linear
from replicate.compat.cells.states import LSTMStateTuple

v1 = tf.compat.v1
_EPSILON = 1e-12


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM cell whose gates and cell are normalized.

    Layer normalization: Ba, Kiros and Hinton (2016), section 3.1. Recurrent dropout: Semeniuta,
    Severyn and Barth (2016), section 3. Variables: kernel [input + units, 4·units], and gamma and
    beta [units] in the scopes input, transform, forget, output and state; without layer_norm kernel
    and bias.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: int | None = None,
        activation: Callable[[Tensor], Tensor] = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          forget_bias: Added to the forget gate.
          input_size: Has no effect.
          activation: Of new value and output.
          layer_norm: True to normalize.
          norm_gain: First value of each gamma.
          norm_shift: First value of each beta.
          dropout_keep_prob: Share of the new values that is kept, a number or a tensor.
          dropout_prob_seed: Seed of the dropout.
          reuse: True to share the variables of a cell in the same scope.
        """
        super().__init__(_reuse=reuse)
        del input_size
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(c, h) of the size of the cell."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """Size of the cell."""
        return self._num_units

    def call(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h), each [batch, units]."""
        cell, hidden = state
        gates = linear([inputs, hidden], 4 * self._num_units, not self._layer_norm)
        add, new, forget, output = tf.split(gates, 4, axis=1)
        add, new = self._normal(add, "input"), self._normal(new, "transform")
        forget, output = self._normal(forget, "forget"), self._normal(output, "output")
        value = self._activation(new)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            value = v1.nn.dropout(value, self._keep_prob, seed=self._seed)
        kept = cell * tf.sigmoid(forget + self._forget_bias)
        cell = self._normal(kept + tf.sigmoid(add) * value, "state")
        hidden = self._activation(cell) * tf.sigmoid(output)
        return hidden, LSTMStateTuple(cell, hidden)

    def _normal(self, values: Tensor, scope: str) -> Tensor:
        if not self._layer_norm:
            return values
        return normalized(values, scope, self._norm_gain, self._norm_shift)


def normalized(values: Tensor, scope: str, gain: float, shift: float) -> Tensor:
    """Normalizes the rows of [batch, size].

    Args:
      values: [batch, size].
      scope: Scope of the variables gamma and beta, [size].
      gain: First value of gamma.
      shift: First value of beta.
    """
    shape = values.shape.as_list()[-1:]
    with v1.variable_scope(scope):
        ones, zeros = v1.constant_initializer(gain), v1.constant_initializer(shift)
        gamma = v1.get_variable("gamma", shape, values.dtype, initializer=ones)
        beta = v1.get_variable("beta", shape, values.dtype, initializer=zeros)
    mean, variance = tf.nn.moments(values, [1], keepdims=True)
    return tf.nn.batch_normalization(values, mean, variance, beta, gamma, _EPSILON)
