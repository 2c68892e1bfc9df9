"""The simple cell: an affine map of inputs and state, and an activation. Elman (1990)."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import LayerRNNCell, OneSize
from replicate.compat.cells.checks import Activation, activation_of, known_width
from replicate.compat.cells.linear import affine

v1 = tf.compat.v1


class BasicRNNCell(OneSize, LayerRNNCell):
    """h' = activation([x, h] · kernel + bias), which is also the output.

    Variables: kernel [input + units, units] and bias [units], zeros at first.
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          activation: A function or its name in tf.nn, tanh if None.
          reuse: True to share the variables of a cell in the same scope.
          name: Name of the scope, "basic_rnn_cell" if None.
          dtype: Type of the variables, that of the first input if None.
          **kwargs: Further arguments of the layer, such as `trainable`.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation_of(activation)

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units = self._num_units
        rows = known_width("BasicRNNCell", inputs_shape) + units
        self._kernel = self.add_variable("kernel", shape=[rows, units])
        self._bias = self.add_variable("bias", shape=[units], initializer=v1.zeros_initializer())
        self.built = True

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units]."""
        output = self._activation(affine([inputs, state], self._kernel, self._bias))
        return output, output
