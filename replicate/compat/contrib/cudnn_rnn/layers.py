"""Layers of one or more RNNs, in one or both directions.

TensorFlow 1 kept the parameters of such a layer in one variable, whose layout only cuDNN knew, and
saved them as those of cells. Here they are those variables.
"""

import abc
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.checks import known_width
from replicate.compat.contrib.cudnn_rnn.cells import CudnnCompatibleGRUCell
from replicate.compat.contrib.rnn.fused import LSTMBlockFusedCell, TimeReversedFusedRNN
from replicate.compat.layers.base import Layer

v1 = tf.compat.v1
_DIRECTIONS = ("unidirectional", "bidirectional")
_INPUT_MODES = ("linear_input", "auto_select")


class _Layers(Layer):
    """Layers of RNNs; a subclass knows their kind."""

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
        kernel_initializer: Callable[..., Tensor] | None = None,
        bias_initializer: Callable[..., Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          num_layers: Number of layers.
          num_units: Size of each RNN.
          input_mode: "linear_input", or "auto_select" for inputs of another size than num_units.
          direction: "unidirectional" or "bidirectional".
          dropout: Share of the outputs of a layer that the next one does not see, while training.
          seed: Seed of the dropout and of the kernels' first values.
          dtype: Type of the variables.
          kernel_initializer: Initializer of the matrix of each gate, [units, inputs] or [units,
            units]. None for Glorot's uniform one.
          bias_initializer: Initializer of the two biases of each gate, [units]; zeros if None.
          name: Name of the scope, "cudnn_lstm" or "cudnn_gru" if None.

        Raises:
          ValueError: There is no such direction or input_mode.
        """
        super().__init__(dtype=dtype, name=name)
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction must be one of {_DIRECTIONS}, got {direction!r}.")
        if input_mode not in _INPUT_MODES:
            raise ValueError(f"input_mode must be one of {_INPUT_MODES}, got {input_mode!r}.")
        self._input_mode = input_mode
        self._direction = direction
        self._dropout = dropout
        self._seed = seed
        self._num_layers = num_layers
        self._num_units = num_units
        self._kernel_initializer = kernel_initializer or v1.glorot_uniform_initializer(seed=seed)
        self._bias_initializer = bias_initializer or v1.zeros_initializer()
        self._rnns: list[Any] = []

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return self._num_layers

    @property
    def num_units(self) -> int:
        """Size of each RNN."""
        return self._num_units

    @property
    def direction(self) -> str:
        """The direction, "unidirectional" or "bidirectional"."""
        return self._direction

    @property
    def num_dirs(self) -> int:
        """Number of directions."""
        return _DIRECTIONS.index(self._direction) + 1

    @property
    @abc.abstractmethod
    def num_states(self) -> int:
        """Number of tensors of the state: 2 for (h, c), 1 for (h,)."""

    @abc.abstractmethod
    def make_rnn(self, width: int) -> Callable[..., tuple[Tensor, Any]]:
        """Makes an RNN and its variables in the current scope.

        Args:
          width: Size of its inputs.

        Returns:
          A function of inputs [time, batch, width], state and sequence_length that gives
          (outputs, last state). A state is a tuple of `num_states` tensors.
        """

    def state_shape(self, batch_size: Any) -> tuple[list[Any], ...]:
        """Returns the shapes of the state for a batch size."""
        shape = [self._num_layers * self.num_dirs, batch_size, self._num_units]
        return tuple(list(shape) for _ in range(self.num_states))

    def build(self, input_shape: Any) -> None:
        """Makes the variables for inputs [time, batch, input]; further calls do nothing.

        Raises:
          ValueError: The size of the inputs is unknown, or the one that "auto_select" skips.
        """
        if self.built:
            return
        width = known_width(type(self).__name__, input_shape)
        if self._input_mode == "auto_select" and width == self._num_units:
            raise ValueError(
                f"{type(self).__name__} with input_mode='auto_select' skips the matrices of inputs "
                f"of {width} units, which is not supported: use 'linear_input'."
            )
        for number, scope in self._scopes():
            size = self._num_units * self.num_dirs if number else width
            with v1.variable_scope(scope, custom_getter=self._started):
                rnn = self.make_rnn(size)
            is_backward = scope.endswith("/bw")
            self._rnns.append(TimeReversedFusedRNN(rnn) if is_backward else rnn)
        self.built = True

    def _scopes(self) -> Iterator[tuple[int, str]]:
        """Yields the number of a layer and the scope of an RNN in it."""
        for number in range(self._num_layers):
            if self.num_dirs == 1:
                yield number, f"rnn/multi_rnn_cell/cell_{number}"
            else:
                scope = f"stack_bidirectional_rnn/cell_{number}/bidirectional_rnn"
                yield number, f"{scope}/fw"
                yield number, f"{scope}/bw"

    def _started(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Gets a variable that begins with what the initializers give for each gate."""
        units = self._num_units
        is_kernel = name.endswith("/kernel")

        def start(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
            gates = shape[-1] // units
            make = self._kernel_of if is_kernel else self._bias_of
            return tf.concat([make(shape[0], gates, dtype) for _ in range(gates)], -1)

        variable = getter(name, *args, **{**kwargs, "initializer": start})
        self._records.trained.append(variable)
        return variable

    def _kernel_of(self, rows: int, gates: int, dtype: Any) -> Tensor:
        """Returns the columns of one gate. One gate alone is a candidate, of inputs or state."""
        units = self._num_units
        sizes = [rows] if gates == 1 else [rows - units, units]
        parts = [self._kernel_initializer([units, size], dtype=dtype) for size in sizes]
        return tf.transpose(tf.concat(parts, 1))

    def _bias_of(self, _: int, gates: int, dtype: Any) -> Tensor:
        """Returns the bias of one gate: cuDNN's two biases, but for a candidate's, are added."""
        drawn = [
            self._bias_initializer([self._num_units], dtype=dtype) for _ in range(min(gates, 2))
        ]
        return tf.add_n(drawn)

    def call(
        self,
        inputs: Any,
        initial_state: tuple[Tensor, ...] | None = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Runs over all times.

        Args:
          inputs: [time, batch, input].
          initial_state: (h, c) or (h,), each [layers · directions, batch, units]; zeros if None.
          sequence_lengths: Lengths, [batch], all times if None.
          time_major: False, with sequence_lengths, if batch and time, and in states the batch and
            the layers, have changed places.
          training: True to drop outputs between layers.

        Returns:
          (outputs [time, batch, directions · units], last states as initial_state).

        Raises:
          TypeError: The initial_state is not a tuple.
        """
        if initial_state is not None and not isinstance(initial_state, tuple):
            raise TypeError(f"initial_state must be a tuple, got {initial_state!r}.")
        swaps = sequence_lengths is not None and not time_major
        values = tf.convert_to_tensor(inputs, self.dtype)
        states: Any = initial_state
        if swaps:
            values = _swapped(values)
            states = states and tuple(map(_swapped, states))
        if states is None:
            shapes = self.state_shape(tf.shape(values)[1])
            states = tuple(tf.zeros(shape, self.dtype) for shape in shapes)
        parts = list(zip(*(tf.unstack(each, self._count) for each in states), strict=True))
        last: list[Any] = []
        for first in range(0, self._count, self.num_dirs):
            if first and training and self._dropout > 0:
                values = tf.nn.dropout(values, rate=self._dropout, seed=self._seed)
            ends = [
                self._rnns[number](values, parts[number], sequence_length=sequence_lengths)
                for number in range(first, first + self.num_dirs)
            ]
            values = tf.concat([outputs for outputs, _ in ends], 2)
            last += [state for _, state in ends]
        final = tuple(tf.stack(each) for each in zip(*last, strict=True))
        return (_swapped(values), tuple(map(_swapped, final))) if swaps else (values, final)

    @property
    def _count(self) -> int:
        return self._num_layers * self.num_dirs


class CudnnLSTM(_Layers):
    """LSTMs without forget_bias, whose states are (h, c).

    Variables: kernel and bias of `CudnnCompatibleLSTMCell`, in the scopes of its cells in
    MultiRNNCell and `tf.nn.dynamic_rnn`, or in `stack_bidirectional_dynamic_rnn`.
    """

    @property
    def num_states(self) -> int:
        """Number of tensors of the state, 2."""
        return 2

    def make_rnn(self, width: int) -> Callable[..., tuple[Tensor, Any]]:
        """Makes an LSTM that runs over all times in one operation."""
        lstm = LSTMBlockFusedCell(
            self._num_units, 0.0, dtype=self.dtype, name="cudnn_compatible_lstm_cell"
        )
        lstm.build(tf.TensorShape([None, None, width]))

        def run(inputs: Tensor, initial_state: Any, **kwargs: Any) -> tuple[Tensor, Any]:
            hidden, cell = initial_state
            kwargs = {"sequence_length": kwargs["sequence_length"]}
            outputs, state = lstm(inputs, (cell, hidden), **kwargs)
            return outputs, (state.h, state.c)

        return run


class CudnnGRU(_Layers):
    """GRUs whose reset gate follows the map of the state; states are (h,).

    Variables: those of `CudnnCompatibleGRUCell`, in scopes as those of `CudnnLSTM`.
    """

    @property
    def num_states(self) -> int:
        """Number of tensors of the state, 1."""
        return 1

    def make_rnn(self, width: int) -> Callable[..., tuple[Tensor, Any]]:
        """Makes a cell that `tf.nn.dynamic_rnn` runs."""
        cell = CudnnCompatibleGRUCell(self._num_units, dtype=self.dtype)
        cell.build(tf.TensorShape([None, width]))

        def run(inputs: Tensor, initial_state: Any, **kwargs: Any) -> tuple[Tensor, Any]:
            outputs, state = v1.nn.dynamic_rnn(
                cell,
                inputs,
                sequence_length=kwargs["sequence_length"],
                initial_state=initial_state[0],
                time_major=True,
            )
            return outputs, (state,)

        return run


def _swapped(values: Tensor) -> Tensor:
    return tf.transpose(values, [1, 0, 2])
