"""The gated recurrent unit: Cho et al. (2014), section 2.3."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import LayerRNNCell, OneSize
from replicate.compat.cells.checks import Activation, activation_of, known_width
from replicate.compat.cells.linear import affine

v1 = tf.compat.v1


class GRUCell(OneSize, LayerRNNCell):
    """h' = u · h + (1 − u) · activation([x, r · h] · kernel + bias), with gates r and u.

    Variables: gates/kernel [input + units, 2·units], whose columns are those of r and u;
    gates/bias, ones at first; candidate/kernel [input + units, units]; candidate/bias.
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
        reuse: bool | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          activation: A function or its name in tf.nn, tanh if None.
          reuse: True to share the variables of a cell in the same scope.
          kernel_initializer: Initializer of the kernels, that of the scope if None.
          bias_initializer: Initializer of the biases. If None ones for the gates, zeros else.
          name: Name of the scope, "gru_cell" if None.
          dtype: Type of the variables, that of the first input if None.
          **kwargs: Further arguments of the layer, such as `trainable`.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation_of(activation)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units, start = self._num_units, self._bias_initializer
        rows = known_width(type(self).__name__, inputs_shape) + units
        ones = v1.constant_initializer(1.0)
        zeros = v1.zeros_initializer()
        self._gate_kernel = self.add_variable(
            "gates/kernel", shape=[rows, 2 * units], initializer=self._kernel_initializer
        )
        self._gate_bias = self.add_variable(
            "gates/bias", shape=[2 * units], initializer=ones if start is None else start
        )
        self._candidate_kernel = self.add_variable(
            "candidate/kernel", shape=[rows, units], initializer=self._kernel_initializer
        )
        self._candidate_bias = self.add_variable(
            "candidate/bias", shape=[units], initializer=zeros if start is None else start
        )
        self.built = True

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units]."""
        gates = tf.sigmoid(affine([inputs, state], self._gate_kernel, self._gate_bias))
        reset, update = tf.split(gates, 2, axis=1)
        candidate = self._activation(
            affine([inputs, reset * state], self._candidate_kernel, self._candidate_bias)
        )
        output = update * state + (1 - update) * candidate
        return output, output
