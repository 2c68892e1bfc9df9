"""LSTM and GRU cells with the variables of TensorFlow's block operations.

These operations have no gradient in TensorFlow 2, so each step is made of several operations.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import LayerRNNCell, OneSize
from replicate.compat.cells.checks import known_width
from replicate.compat.cells.linear import affine
from replicate.compat.cells.states import LSTMStateTuple

v1 = tf.compat.v1


def lstm_variables(layer: Any, width: int, units: int, peepholes: bool) -> list[Any]:
    """Makes the variables of an LSTM cell for inputs of a width.

    Returns:
      [kernel, bias], or [kernel, bias, w_i_diag, w_f_diag, w_o_diag].
    """
    zeros = v1.zeros_initializer()
    variables = [
        layer.add_weight("kernel", [width + units, 4 * units]),
        layer.add_weight("bias", [4 * units], initializer=zeros),
    ]
    for gate in "ifo" if peepholes else "":
        variables.append(layer.add_weight(f"w_{gate}_diag", [units]))
    return variables


def block_arguments(variables: list[Any]) -> dict[str, Tensor]:
    """Returns the arguments w, b, wci, wcf and wco of the operations, from `lstm_variables`."""
    kernel, bias, *peepholes = map(tf.convert_to_tensor, variables)
    if not peepholes:
        peepholes = [tf.zeros([bias.shape.as_list()[0] // 4], bias.dtype)] * 3
    wci, wcf, wco = peepholes
    return {"w": kernel, "b": bias, "wci": wci, "wcf": wcf, "wco": wco}


class LSTMBlockCell(LayerRNNCell):
    """An LSTM cell whose kernel has the columns of input gate, new value, forget and output gate.

    Variables: kernel [input + units, 4·units] and bias [4·units]; with peepholes w_i_diag, w_f_diag
    and w_o_diag [units]. Its checkpoints are those of LSTMCell.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str = "lstm_cell",
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          forget_bias: Added to the bias of the forget gate.
          cell_clip: Bound of the cell's values, None for none.
          use_peephole: True to let the gates see the cell.
          dtype: Type of the variables, that of the first input if None.
          reuse: True to share the variables of a cell in the same scope.
          name: Name of the scope.
        """
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = cell_clip if cell_clip is not None else -1
        self._use_peephole = use_peephole

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(c, h) of the size of the cell."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """Size of the cell."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        width = known_width("LSTMBlockCell", inputs_shape)
        self._of_cell = lstm_variables(self, width, self._num_units, self._use_peephole)
        self.built = True

    def call(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h), each [batch, units].

        Raises:
          ValueError: The state is not a pair.
        """
        if len(state) != 2:
            raise ValueError(f"LSTMBlockCell takes a state (c, h), got {state!r}.")
        cell, hidden = state
        kernel, bias, *peepholes = map(tf.convert_to_tensor, self._of_cell)
        gates = affine([inputs, hidden], kernel, bias)
        add, new, forget, output = tf.split(gates, 4, axis=1)
        if peepholes:
            add += cell * peepholes[0]
            forget += cell * peepholes[1]
        kept = cell * tf.sigmoid(forget + self._forget_bias)
        cell = kept + tf.sigmoid(add) * tf.tanh(new)
        if self._cell_clip > 0:
            cell = tf.clip_by_value(cell, -self._cell_clip, self._cell_clip)
        if peepholes:
            output += cell * peepholes[2]
        hidden = tf.sigmoid(output) * tf.tanh(cell)
        return hidden, LSTMStateTuple(cell, hidden)


class GRUBlockCell(OneSize, LayerRNNCell):
    """A GRU cell.

    Variables: w_ru [input + units, 2·units], b_ru, w_c [input + units, units] and b_c.
    """

    _NAMES = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str = "gru_cell",
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          cell_size: Older name of `num_units`.
          reuse: True to share the variables of a cell in the same scope.
          name: Name of the scope.

        Raises:
          ValueError: Neither or both sizes are given.
        """
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ValueError(
                f"{type(self).__name__} got num_units={num_units} and cell_size={cell_size}, but "
                "it takes exactly one of them."
            )
        self._num_units: Any = cell_size if num_units is None else num_units

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units = self._num_units
        rows = known_width(type(self).__name__, inputs_shape) + units
        shapes = [rows, 2 * units], [2 * units], [rows, units], [units]
        starts = None, v1.ones_initializer(), None, v1.zeros_initializer()
        self._of_cell = [
            self.add_weight(name, shape, initializer=start)
            for name, shape, start in zip(self._NAMES, shapes, starts, strict=True)
        ]
        self.built = True

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Makes one step from inputs [batch, input] and a state [batch, units], the next output."""
        w_ru, b_ru, w_c, b_c = map(tf.convert_to_tensor, self._of_cell)
        reset, update = tf.split(tf.sigmoid(affine([inputs, state], w_ru, b_ru)), 2, axis=1)
        new = tf.tanh(affine([inputs, reset * state], w_c, b_c))
        state = update * state + (1 - update) * new
        return state, state


class GRUBlockCellV2(GRUBlockCell):
    """A GRU cell with the variables of GRUCell: gates/kernel, gates/bias, candidate/kernel, …."""

    _NAMES = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
