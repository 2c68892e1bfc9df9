"""Fused RNNs, which are called once for all times: inputs and outputs are [time, batch, …]."""

import abc
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.checks import known_width
from replicate.compat.cells.states import LSTMStateTuple
from replicate.compat.contrib.rnn.block_cells import block_arguments, lstm_variables
from replicate.compat.layers.base import Layer

v1 = tf.compat.v1


class FusedRNNCell(abc.ABC):
    """An RNN that runs over all times in one call."""

    @abc.abstractmethod
    def __call__(
        self,
        inputs: Tensor,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Tensor, Any]:
        """Runs over all times.

        Args:
          inputs: [time, batch, input], or a list of [batch, input].
          initial_state: State before the first time, zeros if None.
          dtype: Type of the zeros. Needed if there is no initial_state.
          sequence_length: Lengths of the sequences, [batch]; all times if None.
          scope: Scope of the variables.

        Returns:
          (outputs [time, batch, output] or a list, state after the last time of each sequence).
        """


class FusedRNNCellAdaptor(FusedRNNCell):
    """A fused RNN made of a cell."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        """Keeps the cell, which `tf.nn.dynamic_rnn` or `tf.nn.static_rnn` runs."""
        self._cell = cell
        self._dynamic = use_dynamic_rnn

    def __call__(
        self,
        inputs: Tensor,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Tensor, Any]:
        """Runs over all times; arguments as for `FusedRNNCell`."""
        is_list = isinstance(inputs, list)
        settings = {"initial_state": initial_state, "dtype": dtype, "scope": scope}
        if self._dynamic:
            outputs, state = v1.nn.dynamic_rnn(
                self._cell,
                tf.convert_to_tensor(inputs),
                sequence_length=sequence_length,
                time_major=True,
                **settings,
            )
            return tf.unstack(outputs) if is_list else outputs, state
        steps = inputs if is_list else tf.unstack(inputs)
        outputs, state = v1.nn.static_rnn(
            self._cell, steps, sequence_length=sequence_length, **settings
        )
        return outputs if is_list else tf.stack(outputs), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused RNN that runs from the last time to the first one."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Tensor,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Tensor, Any]:
        """Runs over all times; arguments as for `FusedRNNCell`."""
        settings = {"scope": scope} if scope is not None else {}
        outputs, state = self._cell(
            _reversed(inputs, sequence_length),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            **settings,
        )
        return _reversed(outputs, sequence_length), state


class LSTMBlockWrapper(Layer):
    """An LSTM that runs over all times in one operation; an abstract class."""

    @property
    @abc.abstractmethod
    def num_units(self) -> int:
        """Size of the cell."""

    @abc.abstractmethod
    def _call_cell(
        self,
        inputs: Tensor,
        initial_cell_state: Tensor,
        initial_output: Tensor,
        dtype: Any,
        sequence_length: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Returns (cells, outputs) of all times, each [time, batch, units]."""

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
    ) -> tuple[Any, Any]:
        """Runs over all times, with the arguments of `FusedRNNCell`.

        The state is (c, h), each [batch, units]. Outputs after the end of a sequence are 0.

        Returns:
          (outputs, LSTMStateTuple).

        Raises:
          ValueError: There is neither initial_state nor dtype.
        """
        is_list = isinstance(inputs, list)
        steps = tf.stack(inputs) if is_list else inputs
        cell, output = self._initial(initial_state, dtype, tf.shape(steps)[1])
        lengths = None
        if sequence_length is not None:
            lengths = tf.cast(tf.convert_to_tensor(sequence_length), tf.int32)
        cells, outputs = self._call_cell(steps, cell, output, dtype, lengths)
        if lengths is None:
            state = cells[-1], outputs[-1]
        else:
            inside = tf.transpose(tf.sequence_mask(lengths, tf.shape(steps)[0], outputs.dtype))
            outputs *= tf.expand_dims(inside, 2)
            state = _at_end(cells, cell, lengths), _at_end(outputs, output, lengths)
        return tf.unstack(outputs) if is_list else outputs, LSTMStateTuple(*state)

    def _initial(self, state: Any, dtype: Any, batch: Tensor) -> tuple[Tensor, Tensor]:
        if state is not None:
            return state[0], state[1]
        if dtype is None:
            raise ValueError(f"{type(self).__name__} needs initial_state or dtype, got neither.")
        zeros = tf.zeros([batch, self.num_units], dtype)
        return zeros, zeros


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """An LSTM with the columns of `LSTMBlockCell`, in one operation for all times."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: bool | None = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        """Keeps the settings; they are those of `LSTMBlockCell`."""
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = cell_clip if cell_clip is not None else -1
        self._use_peephole = use_peephole

    @property
    def num_units(self) -> int:
        """Size of the cell."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Makes the variables for inputs of a shape, [time, batch, input] or a list of shapes."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        width = known_width("LSTMBlockFusedCell", shape)
        self._of_cell = lstm_variables(self, width, self._num_units, self._use_peephole)
        self.built = True

    def _call_cell(
        self,
        inputs: Tensor,
        initial_cell_state: Tensor,
        initial_output: Tensor,
        dtype: Any,
        sequence_length: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        del dtype
        longest = tf.shape(inputs)[0] if sequence_length is None else tf.reduce_max(sequence_length)
        run = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=inputs,
            cs_prev=initial_cell_state,
            h_prev=initial_output,
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
            **block_arguments(self._of_cell),
        )
        return run.cs, run.h


def _at_end(values: Tensor, initial: Tensor, lengths: Tensor) -> Tensor:
    """Returns the value after the last time of each sequence, [batch, units]."""
    all_times = tf.concat([tf.expand_dims(initial, 0), values], 0)
    rows = tf.range(tf.shape(lengths)[0])
    return tf.gather_nd(all_times, tf.stack([lengths, rows], 1))


def _reversed(values: Any, lengths: Tensor | None) -> Any:
    if isinstance(values, list):
        return tf.unstack(_reversed(tf.stack(values), lengths))
    if lengths is None:
        return tf.reverse(values, [0])
    return tf.reverse_sequence(values, lengths, seq_axis=0, batch_axis=1)
