"""Cells with few gates: Collins, Sohl-Dickstein and Sussillo (2017), section 2."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import OneSize, RNNCell
from replicate.compat.cells.linear import linear

v1 = tf.compat.v1


class _UnitsCell(OneSize, RNNCell):
    """A cell whose state and output have one size."""

    def __init__(
        self, num_units: int, initializer: Any, forget_bias: float, reuse: bool | None
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias

    def _linear(self, args: Any, size: int) -> Tensor:
        return linear(args, size, True, kernel_initializer=self._initializer)


class UGRNNCell(_UnitsCell):
    """A cell with one gate, g: h' = g · h + (1 − g) · activation(…).

    Variables: kernel [input + units, 2·units] and bias [2·units].
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Callable[[Tensor], Tensor] = tf.tanh,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          initializer: Initializer of the kernel, that of the scope if None.
          forget_bias: Added to the gate.
          activation: Activation of the new values.
          reuse: True to share the variables of a cell in the same scope.
        """
        super().__init__(num_units, initializer, forget_bias, reuse)
        self._activation = activation

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units]."""
        gate, new = tf.split(self._linear([inputs, state], 2 * self._num_units), 2, axis=1)
        gate = tf.sigmoid(gate + self._forget_bias)
        state = gate * state + (1.0 - gate) * self._activation(new)
        return state, state


class IntersectionRNNCell(_UnitsCell):
    """A cell with a gate through time and one through depth, the +RNN.

    Variables: kernel [2·units, 4·units] and bias [4·units]; for inputs of another size kernel and
    bias in the scope in_projection.
    """

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Callable[[Tensor], Tensor] = tf.nn.relu,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          num_in_proj: That size, to project inputs of another size; None for inputs of this size.
          initializer: Initializer of the kernels, that of the scope if None.
          forget_bias: Added to both gates.
          y_activation: Activation of the new outputs.
          reuse: True to share the variables of a cell in the same scope.
        """
        super().__init__(num_units, initializer, forget_bias, reuse)
        self._num_input_proj = num_in_proj
        self._y_activation = y_activation

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units].

        Raises:
          ValueError: The inputs have another size than the cell, and there is no num_in_proj.
        """
        units = self._num_units
        if inputs.shape.as_list()[1] != units:
            if not self._num_input_proj:
                raise ValueError(
                    f"IntersectionRNNCell got inputs {inputs.shape}, but it has {units} units: set "
                    f"num_in_proj={units}."
                )
            with v1.variable_scope("in_projection"):
                inputs = self._linear(inputs, units)
        parts = tf.split(self._linear([inputs, state], 4 * units), 4, axis=1)
        in_time, new_state, in_depth, new_output = parts
        in_time = tf.sigmoid(in_time + self._forget_bias)
        in_depth = tf.sigmoid(in_depth + self._forget_bias)
        state = in_time * state + (1.0 - in_time) * tf.tanh(new_state)
        return in_depth * inputs + (1.0 - in_depth) * self._y_activation(new_output), state
