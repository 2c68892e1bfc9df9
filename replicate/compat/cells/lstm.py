"""LSTM cells: Hochreiter and Schmidhuber (1997), with the forget gates of Gers et al. (2000).

Columns of the kernels are those of input gate i, new value j, forget gate f and output gate o.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import LayerRNNCell
from replicate.compat.cells.checks import Activation, activation_of, known_width
from replicate.compat.cells.linear import affine
from replicate.compat.cells.states import LSTMStateTuple

v1 = tf.compat.v1


class BasicLSTMCell(LayerRNNCell):
    """c' = σ(f + forget_bias) · c + σ(i) · activation(j), h' = σ(o) · activation(c').

    Variables: kernel [input + units, 4·units] and bias [4·units], zeros at first.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          forget_bias: Added to the forget gate.
          state_is_tuple: True for an LSTMStateTuple (c, h), False for one tensor [c, h].
          activation: A function or its name in tf.nn, tanh if None.
          reuse: True to share the variables of a cell in the same scope.
          name: Name of the scope, "basic_lstm_cell" if None.
          dtype: Type of the variables, that of the first input if None.
          **kwargs: Further arguments of the layer, such as `trainable`.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, units), or their sum."""
        return _sizes(self._num_units, self._num_units, self._state_is_tuple)

    @property
    def output_size(self) -> int:
        """Size of the cell."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units = self._num_units
        rows = known_width("BasicLSTMCell", inputs_shape) + units
        self._kernel = self.add_variable("kernel", shape=[rows, 4 * units])
        self._bias = self.add_variable(
            "bias", shape=[4 * units], initializer=v1.zeros_initializer()
        )
        self.built = True

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h), each [batch, units]."""
        cell, hidden = _parts(state, [self._num_units] * 2, self._state_is_tuple)
        gates = affine([inputs, hidden], self._kernel, self._bias)
        add, new, forget, output = tf.split(gates, 4, axis=1)
        bias = tf.constant(self._forget_bias, dtype=forget.dtype)
        # Not operators: the operations have the names of TensorFlow 1, Add and Mul.
        cell = tf.add(
            tf.multiply(cell, tf.sigmoid(tf.add(forget, bias))),
            tf.multiply(tf.sigmoid(add), self._activation(new)),
        )
        hidden = tf.multiply(self._activation(cell), tf.sigmoid(output))
        return hidden, _state(cell, hidden, self._state_is_tuple)


class LSTMCell(LayerRNNCell):
    """An LSTM cell with peepholes, clipping and a projection of its outputs, all optional.

    Peepholes and projection: Sak, Senior and Beaufays (2014), section 2. Variables: kernel
    [input + outputs, 4·units] and bias [4·units], zeros at first; with peepholes w_f_diag, w_i_diag
    and w_o_diag [units]; with num_proj projection/kernel [units, num_proj].
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keeps the settings.

        Args:
          num_units: Size of the cell.
          use_peepholes: True to let the gates see the cell.
          cell_clip: Bound of the cell's values, None for none.
          initializer: Initializer of kernels and peepholes, that of the scope if None.
          num_proj: Size of the outputs. None for that of the cell, without projection.
          proj_clip: Bound of the projected outputs, None for none.
          num_unit_shards: Number of parts of the kernel, None for that of the scope's partitioner.
          num_proj_shards: Number of parts of the projection, likewise.
          forget_bias: Added to the forget gate.
          state_is_tuple: True for an LSTMStateTuple (c, h), False for one tensor [c, h].
          activation: A function or its name in tf.nn, tanh if None.
          reuse: True to share the variables of a cell in the same scope.
          name: Name of the scope, "lstm_cell" if None.
          dtype: Type of the variables, that of the first input if None.
          **kwargs: Further arguments of the layer, such as `trainable`.
        """
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> Any:
        """LSTMStateTuple(units, size of the outputs), or their sum."""
        return _sizes(self._num_units, self.output_size, self._state_is_tuple)

    @property
    def output_size(self) -> int:
        """Size of the outputs."""
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Makes the variables for inputs of a shape."""
        units, start = self._num_units, self._initializer
        rows = known_width("LSTMCell", inputs_shape) + self.output_size
        self._kernel = self.add_variable(
            "kernel",
            shape=[rows, 4 * units],
            initializer=start,
            partitioner=_partitioner(self._num_unit_shards),
        )
        zeros = v1.zeros_initializer()
        self._bias = self.add_variable("bias", shape=[4 * units], initializer=zeros)
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_variable(f"w_{gate}_diag", shape=[units], initializer=start)
                for gate in "fio"
            )
        if self._num_proj:
            self._proj_kernel = self.add_variable(
                "projection/kernel",
                shape=[units, self._num_proj],
                initializer=start,
                partitioner=_partitioner(self._num_proj_shards),
            )
        self.built = True

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Makes one step from inputs [batch, input] and a state (c, h).

        c is [batch, units], h [batch, output_size].
        """
        sizes = [self._num_units, self.output_size]
        cell, hidden = _parts(state, sizes, self._state_is_tuple)
        gates = affine([inputs, hidden], self._kernel, self._bias)
        add, new, forget, output = tf.split(gates, 4, axis=1)
        forget += self._forget_bias
        kept = tf.sigmoid(self._seeing(forget, "f", cell)) * cell
        cell = kept + tf.sigmoid(self._seeing(add, "i", cell)) * self._activation(new)
        cell = _clipped(cell, self._cell_clip)
        hidden = tf.sigmoid(self._seeing(output, "o", cell)) * self._activation(cell)
        if self._num_proj:
            projected = tf.matmul(hidden, self._proj_kernel)
            hidden = _clipped(projected, self._proj_clip)
        return hidden, _state(cell, hidden, self._state_is_tuple)

    def _seeing(self, values: Tensor, gate: str, cell: Tensor) -> Tensor:
        """Adds what a gate sees of the cell through its peephole, if it has one."""
        if not self._use_peepholes:
            return values
        return values + getattr(self, f"_w_{gate}_diag") * cell


def _sizes(cell: int, hidden: int, is_tuple: bool) -> Any:
    return LSTMStateTuple(cell, hidden) if is_tuple else cell + hidden


def _parts(state: Any, sizes: Sequence[int], is_tuple: bool) -> Sequence[Tensor]:
    """Returns (c, h) of a state.

    Raises:
      ValueError: It is no pair.
    """
    if not is_tuple:
        parts: Sequence[Tensor] = tf.split(state, sizes, axis=1)
        return parts
    if not isinstance(state, list | tuple) or len(state) != 2:
        raise ValueError(
            f"An LSTM cell with state_is_tuple=True takes a state (c, h), got {state!r}."
        )
    return state


def _state(cell: Tensor, hidden: Tensor, is_tuple: bool) -> Any:
    return LSTMStateTuple(cell, hidden) if is_tuple else tf.concat([cell, hidden], 1)


def _clipped(values: Tensor, bound: float | None) -> Tensor:
    return values if bound is None else tf.clip_by_value(values, -bound, bound)


def _partitioner(shards: int | None) -> Any:
    return v1.fixed_size_partitioner(shards) if shards is not None else None
