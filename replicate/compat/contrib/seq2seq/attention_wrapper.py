"""A cell with attention over the outputs of an encoder."""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.base import RNNCell
from replicate.compat.cells.checks import checked_cell
from replicate.compat.layers.core import Dense

v1 = tf.compat.v1


class AttentionWrapperState(
    collections.namedtuple(
        "AttentionWrapperState",
        (
            "cell_state",
            "attention",
            "time",
            "alignments",
            "alignment_history",
            "attention_state",
        ),
    )
):
    """State of an `AttentionWrapper`.

    Attributes:
      cell_state: State of the cell.
      attention: Attention of the last step, [batch, size].
      time: Number of steps so far.
      alignments: Shares of the last step, [batch, time], or a tuple with those of each mechanism.
      alignment_history: A TensorArray of the shares of all steps, or (); a tuple of several.
      attention_state: State of the mechanism, or a tuple of states.
    """

    def clone(self, **kwargs: Any) -> "AttentionWrapperState":
        """Returns the state with other fields. Tensors get the static shape of the old ones."""

        def shaped(earlier: Any, later: Any) -> Any:
            if tf.is_tensor(earlier) and tf.is_tensor(later):
                return tf.ensure_shape(later, earlier.shape)
            return later

        changed = self._replace(**kwargs)
        flat = map(shaped, tf.nest.flatten(self), tf.nest.flatten(changed))
        tf.nest.assert_same_structure(self, changed)
        return tf.nest.pack_sequence_as(changed, list(flat))


class AttentionWrapper(RNNCell):
    """A cell whose input has the attention of its last step.

    The output of the cell is the query. Attention is a linear map of the query and of what the
    mechanism reads from its memory, or that alone without attention_layer_size. Variables:
    attention_layer/kernel, those of the cell and of the mechanisms.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Keeps the parts.

        Args:
          cell: A cell.
          attention_mechanism: A mechanism, or a list of them.
          attention_layer_size: Size of the attention, one for each mechanism. None for no layer.
          alignment_history: True to keep the alignments of all steps.
          cell_input_fn: Makes the cell's input of input and attention; None to concatenate them.
          output_attention: True to output the attention, False for the output of the cell.
          initial_cell_state: State of the cell in `zero_state`, zeros if None.
          name: Name of the scope, "attention_wrapper" if None.
          attention_layer: A layer for each mechanism, in place of the size.
          attention_fn: Function (mechanism, output, state of the mechanism, layer) that gives
            (attention, alignments, next state). None for the one told above.

        Raises:
          TypeError: It is no cell, no mechanism, or a function cannot be called.
          ValueError: There are not as many sizes or layers as mechanisms, or both are given.
        """
        super().__init__(name=name)
        self._cell = checked_cell("AttentionWrapper", cell)
        for each in (cell_input_fn, attention_fn):
            if each is not None and not callable(each):
                raise TypeError(f"AttentionWrapper takes functions, got {each!r}.")
        is_multi = isinstance(attention_mechanism, list | tuple)
        mechanisms = list(attention_mechanism) if is_multi else [attention_mechanism]
        for mechanism in mechanisms:
            if not hasattr(mechanism, "alignments_size"):
                raise TypeError(f"AttentionWrapper takes attention mechanisms, got {mechanism!r}.")
        self._is_multi = is_multi
        self._attention_mechanisms = mechanisms
        self._attention_layers = _layers(mechanisms, attention_layer_size, attention_layer)
        self._cell_input_fn = cell_input_fn or _concatenated
        self._attention_fn = attention_fn or compute_attention
        # tf.Module wraps a tuple that is set as usual.
        object.__setattr__(self, "_initial_cell_state", _initial(initial_cell_state))
        self._alignment_history = alignment_history
        self._output_attention = output_attention
        self._attention_layer_size = sum(
            _size(mechanism, layer)
            for mechanism, layer in zip(mechanisms, self._attention_layers, strict=True)
        )

    @property
    def output_size(self) -> Any:
        """Size of the attention, or of the cell's output."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """Sizes of the state."""
        sizes = [each.alignments_size for each in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_layer_size,
            time=tf.TensorShape([]),
            alignments=self._one_or_all(sizes),
            alignment_history=self._one_or_all(
                sizes if self._alignment_history else [()] * len(sizes)
            ),
            attention_state=self._one_or_all(
                [each.state_size for each in self._attention_mechanisms]
            ),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """Returns the first state.

        Args:
          batch_size: Number of sequences. For a beam search batch·beam.
          dtype: Type of the state.
        """
        with tf.name_scope(f"{type(self).__name__}ZeroState"):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            with tf.control_dependencies(self._checks(batch_size)):
                cell_state = tf.nest.map_structure(tf.identity, cell_state)
            mechanisms = self._attention_mechanisms
            alignments = [each.initial_alignments(batch_size, dtype) for each in mechanisms]
            return AttentionWrapperState(
                cell_state=cell_state,
                attention=tf.zeros([batch_size, self._attention_layer_size], dtype),
                time=tf.zeros([], tf.int32),
                alignments=self._one_or_all(alignments),
                alignment_history=self._one_or_all([self._history(dtype, a) for a in alignments]),
                attention_state=self._one_or_all(
                    [each.initial_state(batch_size, dtype) for each in mechanisms]
                ),
            )

    def call(
        self, inputs: Tensor, state: AttentionWrapperState
    ) -> tuple[Tensor, AttentionWrapperState]:
        """Makes one step.

        Args:
          inputs: [batch, input].
          state: State of the last step.

        Returns:
          (attention or output of the cell, new state).

        Raises:
          TypeError: The state is no `AttentionWrapperState`.
        """
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "AttentionWrapper takes an AttentionWrapperState, got "
                f"{type(state).__name__}: make it with cell.zero_state(batch_size, dtype), and put "
                "the state of an encoder in with .clone(cell_state=…)."
            )
        cell_inputs = self._cell_input_fn(inputs, state.attention)
        output, cell_state = self._cell(cell_inputs, state.cell_state)
        with tf.control_dependencies(
            self._checks(output.shape.as_list()[0] or tf.shape(output)[0])
        ):
            output = tf.identity(output, name="checked_cell_output")
        attentions, alignments, states, histories = [], [], [], []
        for mechanism, layer, previous, history in zip(
            self._attention_mechanisms,
            self._attention_layers,
            self._all(state.attention_state),
            self._all(state.alignment_history),
            strict=True,
        ):
            attention, shares, following = self._attention_fn(mechanism, output, previous, layer)
            attentions.append(attention)
            alignments.append(shares)
            states.append(following)
            histories.append(history.write(state.time, shares) if self._alignment_history else ())
        attention = tf.concat(attentions, 1)
        following_state = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._one_or_all(alignments),
            alignment_history=self._one_or_all(histories),
            attention_state=self._one_or_all(states),
        )
        return attention if self._output_attention else output, following_state

    def _history(self, dtype: Any, alignments: Tensor) -> Any:
        if not self._alignment_history:
            return ()
        return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=alignments.shape)

    def _one_or_all(self, values: Sequence[Any]) -> Any:
        return tuple(values) if self._is_multi else values[0]

    def _all(self, value: Any) -> Any:
        return value if self._is_multi else [value]

    def _checks(self, batch_size: Any) -> list[Any]:
        checks = [
            v1.assert_equal(
                mechanism.batch_size,
                batch_size,
                message=f"The memory of the attention of {self.name} has another batch size than "
                "the decoder. For a BeamSearchDecoder, repeat memory, lengths and states with "
                "tf.contrib.seq2seq.tile_batch(…, multiplier=beam_width).",
            )
            for mechanism in self._attention_mechanisms
        ]
        return [check for check in checks if check is not None]


def compute_attention(
    mechanism: Any, output: Tensor, state: Any, layer: Any
) -> tuple[Tensor, Tensor, Any]:
    """Reads a memory by a query, the output of a cell. The layer, if any, mixes both.

    Returns:
      (attention, alignments, next state of the mechanism).
    """
    alignments, state = mechanism(output, state)
    context = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), mechanism.values), 1)
    attention = context if layer is None else layer(tf.concat([output, context], 1))
    return attention, alignments, state


def _concatenated(inputs: Tensor, attention: Tensor) -> Tensor:
    return tf.concat([inputs, attention], -1)


def _initial(state: Any) -> Any:
    if state is None:
        return None
    return tf.nest.map_structure(lambda each: tf.identity(each, "initial_cell_state"), state)


def _layers(mechanisms: Sequence[Any], sizes: Any, given: Any) -> list[Any]:
    if sizes is not None and given is not None:
        raise ValueError(
            "AttentionWrapper takes attention_layer_size or attention_layer, not both."
        )
    if sizes is not None:
        counts = sizes if isinstance(sizes, list | tuple) else (sizes,)
        given = [
            Dense(size, name="attention_layer", use_bias=False, dtype=mechanism.dtype)
            for size, mechanism in zip(counts, mechanisms, strict=False)
        ]
        given += [None] * (len(counts) - len(given))
    if given is None:
        return [None] * len(mechanisms)
    found = list(given) if isinstance(given, list | tuple) else [given]
    if len(found) != len(mechanisms):
        raise ValueError(
            f"AttentionWrapper got {len(mechanisms)} attention mechanisms with {len(found)} sizes "
            "or layers: there must be as many."
        )
    return found


def _size(mechanism: Any, layer: Any) -> int:
    depth = mechanism.values.shape.as_list()[-1]
    if layer is None:
        return int(depth)
    units = getattr(layer, "units", None)
    if units is not None:
        return int(units)
    shape = tf.TensorShape([None, depth])
    return int(tf.TensorShape(layer.compute_output_shape(shape)).as_list()[-1])
