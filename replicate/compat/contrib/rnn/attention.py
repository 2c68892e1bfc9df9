"""A cell with attention over its own last outputs."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.checks import checked_cell
from replicate.compat.cells.linear import linear

v1 = tf.compat.v1


class AttentionCellWrapper(RNNCell):
    """A cell that sees its last outputs through attention, as Bahdanau, Cho and Bengio (2014), 3.1.

    Variables: kernel and bias of the inputs; attention/attn_w [1, 1, attn_size, attn_vec_size],
    attention/attn_v [attn_vec_size], attention/kernel and attention/bias; kernel and bias of
    attn_output_projection.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          cell: A cell.
          attn_length: Number of outputs that it sees.
          attn_size: Size of the outputs, that of the cell's if None.
          attn_vec_size: Size of the attention's hidden layer, `attn_size` if None.
          input_size: Size of the cell's inputs, that of the inputs if None.
          state_is_tuple: True for the state (cell's, attention, outputs), False for one tensor.
          reuse: True to share the variables of a cell in the same scope.

        Raises:
          TypeError: It is no cell.
          ValueError: The length is less than 1, or only the cell's state is a tuple.
        """
        super().__init__(_reuse=reuse)
        self._cell = checked_cell("AttentionCellWrapper", cell)
        if tf.nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "AttentionCellWrapper got a cell whose state is a tuple, but state_is_tuple=False: "
                f"{cell.state_size!r}."
            )
        if attn_length < 1:
            raise ValueError(
                f"AttentionCellWrapper got attn_length={attn_length}, but it must be at least 1."
            )
        self._attn_length = attn_length
        self._attn_size: int = cell.output_size if attn_size is None else attn_size
        self._vec_size = self._attn_size if attn_vec_size is None else attn_vec_size
        self._input_size = input_size
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        """Sizes of the cell's state, of the attention and of the outputs."""
        sizes = (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """Size of the outputs, attn_size."""
        return self._attn_size

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input]: (output [batch, attn_size], new state)."""
        cell_state, attention, outputs = self._parts(state)
        outputs = tf.reshape(outputs, [-1, self._attn_length, self._attn_size])
        size = self._input_size or inputs.shape.as_list()[1]
        cell_output, cell_state = self._cell(linear([inputs, attention], size, True), cell_state)
        attention = self._attention(tf.concat(tf.nest.flatten(cell_state), 1), outputs)
        with v1.variable_scope("attn_output_projection"):
            output = linear([cell_output, attention], self._attn_size, True)
        outputs = tf.concat([outputs[:, 1:], tf.expand_dims(output, 1)], 1)
        outputs = tf.reshape(outputs, [-1, self._attn_length * self._attn_size])
        new = (cell_state, attention, outputs)
        return output, new if self._state_is_tuple else tf.concat(new, 1)

    def _parts(self, state: Any) -> Any:
        if self._state_is_tuple:
            return state
        sizes = [self._cell.state_size, self._attn_size, self._attn_size * self._attn_length]
        return tf.split(state, sizes, axis=1)

    def _attention(self, query: Tensor, outputs: Tensor) -> Tensor:
        with v1.variable_scope("attention"):
            shape = [1, 1, self._attn_size, self._vec_size]
            weights = v1.get_variable("attn_w", shape, query.dtype)
            vector = v1.get_variable("attn_v", [self._vec_size], query.dtype)
            hidden = tf.tensordot(outputs, tf.reshape(weights, shape[2:]), 1)
            hidden += tf.expand_dims(linear(query, self._vec_size, True), 1)
            shares = tf.nn.softmax(tf.reduce_sum(vector * tf.tanh(hidden), 2))
        return tf.reduce_sum(tf.expand_dims(shares, 2) * outputs, 1)
