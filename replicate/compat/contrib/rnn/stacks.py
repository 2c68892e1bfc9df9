"""Stacks of bidirectional layers: each layer sees both directions of the one below."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[Tensor],
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Tensor | None = None,
    scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Runs layers of `tf.nn.static_bidirectional_rnn`.

    Args:
      cells_fw: Forward cell of each layer.
      cells_bw: Backward cell of each layer.
      inputs: A tensor [batch, input] for each time.
      initial_states_fw: First state of each forward cell, zeros if None.
      initial_states_bw: First state of each backward cell, zeros if None.
      dtype: Type of the zeros.
      sequence_length: Lengths, [batch].
      scope: Scope of the variables, "stack_bidirectional_rnn" if None.

    Returns:
      (outputs of both directions side by side, last states forward, last states backward).

    Raises:
      ValueError: There are no cells, or not as many of the one kind as of the other.
    """

    def layer(forward: Any, backward: Any, values: Any, first: Any, second: Any) -> Any:
        outputs, state, other = v1.nn.static_bidirectional_rnn(
            forward, backward, values, first, second, dtype=dtype, sequence_length=sequence_length
        )
        return outputs, state, other

    states = initial_states_fw, initial_states_bw
    return _stack(layer, "stack_bidirectional_rnn", cells_fw, cells_bw, inputs, states, scope)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Tensor,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Tensor | None = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Runs layers of `tf.nn.bidirectional_dynamic_rnn`.

    The arguments are those of that function; cells and first states are given for each layer, as to
    `stack_bidirectional_rnn`. Inputs are [batch, time, input], with `time_major` [time, batch,
    input].

    Returns:
      (outputs, last states forward, last states backward).

    Raises:
      ValueError: There are no cells, or not as many of the one kind as of the other.
    """

    def layer(forward: Any, backward: Any, values: Any, first: Any, second: Any) -> Any:
        outputs, (state, other) = v1.nn.bidirectional_dynamic_rnn(
            forward,
            backward,
            values,
            initial_state_fw=first,
            initial_state_bw=second,
            dtype=dtype,
            sequence_length=sequence_length,
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            time_major=time_major,
        )
        return tf.concat(outputs, 2), state, other

    states = initial_states_fw, initial_states_bw
    return _stack(layer, "stack_bidirectional_rnn", cells_fw, cells_bw, inputs, states, scope)


def transpose_batch_time(values: Tensor) -> Tensor:
    """Exchanges the first two dimensions of a tensor, if it has two."""
    values = tf.convert_to_tensor(values)
    if values.shape.rank is not None and values.shape.rank < 2:
        return values
    return tf.transpose(values, tf.concat([[1, 0], tf.range(2, tf.rank(values))], 0))


def _stack(
    layer: Callable[..., Any],
    name: str,
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial: tuple[Sequence[Any] | None, Sequence[Any] | None],
    scope: Any,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    _check(name, cells_fw, cells_bw, *initial)
    starts = [states if states is not None else [None] * len(cells_fw) for states in initial]
    forward, backward = [], []
    with v1.variable_scope(scope or name):
        for number, (fw, bw, *states) in enumerate(zip(cells_fw, cells_bw, *starts, strict=True)):
            with v1.variable_scope(f"cell_{number}"):
                inputs, state, other = layer(fw, bw, inputs, *states)
            forward.append(state)
            backward.append(other)
    return inputs, tuple(forward), tuple(backward)


def _check(name: str, cells_fw: Any, cells_bw: Any, first: Any, second: Any) -> None:
    for cells in (cells_fw, cells_bw):
        if not isinstance(cells, list | tuple) or not cells:
            raise ValueError(f"{name} takes lists of one or more cells, got {cells!r}.")
    counts = {len(each) for each in (cells_fw, cells_bw, first, second) if each is not None}
    if len(counts) > 1:
        raise ValueError(
            f"{name} got {len(cells_fw)} forward cells, {len(cells_bw)} backward cells and "
            f"{[len(each) for each in (first, second) if each is not None]} initial states: "
            "there must be as many of each."
        )
