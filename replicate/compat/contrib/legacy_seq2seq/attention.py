"""A decoder with attention: Vinyals et al., "Grammar as a Foreign Language" (2014), section 2.1."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.contrib.legacy_seq2seq.decoders import best_embedding, looped
from replicate.compat.contrib.rnn import linear

v1 = tf.compat.v1


def attention_decoder(
    decoder_inputs: Sequence[Tensor],
    initial_state: Any,
    attention_states: Tensor,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Callable[[Tensor, int], Tensor] | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Tensor], Any]:
    """Runs a cell over inputs and what attention reads from the outputs of an encoder.

    Variables: kernel and bias of the inputs; AttnW_k [1, 1, size, size], AttnV_k [size] and
    Attention_k/kernel and bias of head k; AttnOutputProjection/kernel and bias.

    Args:
      decoder_inputs: For each time, [batch, input].
      initial_state: First state of the cell.
      attention_states: Outputs of the encoder, [batch, time, size].
      cell: A cell.
      output_size: Size of the outputs, that of the cell if None.
      num_heads: Number of attention heads.
      loop_function: As for `rnn_decoder`.
      dtype: Type of the first attention, that of the scope if None.
      scope: Scope of the variables, "attention_decoder" if None.
      initial_state_attention: True to read by the first state; False for a first attention of 0.

    Returns:
      (outputs of all times, last state).

    Raises:
      ValueError: There are no inputs or heads, or a size is unknown.
    """
    _check(decoder_inputs, attention_states, num_heads)
    size = cell.output_size if output_size is None else output_size
    with v1.variable_scope(scope or "attention_decoder", dtype=dtype) as variables:
        read = _reader(attention_states, num_heads)
        batch, width = tf.shape(decoder_inputs[0])[0], attention_states.shape.as_list()[2]
        attentions = [tf.zeros([batch, width], dtype or variables.dtype)] * num_heads
        if initial_state_attention:
            attentions = read(initial_state)
        outputs: list[Tensor] = []
        state = initial_state
        for time, given in enumerate(decoder_inputs):
            if time:
                v1.get_variable_scope().reuse_variables()
            inputs = looped(loop_function, outputs, time, given)
            mixed = linear([inputs, *attentions], _width(inputs), True)
            output, state = cell(mixed, state)
            reuse = True if initial_state_attention or time else None
            with v1.variable_scope(v1.get_variable_scope(), reuse=reuse):
                attentions = read(state)
            with v1.variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, *attentions], size, True))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Tensor],
    initial_state: Any,
    attention_states: Tensor,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: tuple[Tensor, Tensor] | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Tensor], Any]:
    """Runs `attention_decoder` over the embeddings of ids, [batch] for each time.

    Its variable is embedding [num_symbols, embedding_size]. `feed_previous` is True to use the id
    of the largest logit as the next input, made of outputs by `output_projection`, weights and
    biases; `update_embedding_for_previous` is False to give no gradients to embeddings of such ids.
    The other arguments are those of `attention_decoder`.

    Returns:
      (outputs of all times, last state).

    Raises:
      ValueError: There are no inputs or heads, or a size is unknown.
    """
    with v1.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = v1.get_variable("embedding", [num_symbols, embedding_size])
        loop = None
        if feed_previous:
            loop = best_embedding(embedding, output_projection, update_embedding_for_previous)
        return attention_decoder(
            [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size,
            num_heads,
            loop,
            initial_state_attention=initial_state_attention,
        )


def _reader(states: Tensor, heads: int) -> Callable[[Any], list[Tensor]]:
    """Returns a function of a query that gives what each head reads, [batch, size]."""
    size = states.shape.as_list()[2]
    hidden, vectors = [], []
    for head in range(heads):
        weights = v1.get_variable(f"AttnW_{head}", [1, 1, size, size])
        hidden.append(tf.tensordot(states, tf.reshape(weights, [size, size]), 1))
        vectors.append(v1.get_variable(f"AttnV_{head}", [size]))

    def read(query: Any) -> list[Tensor]:
        flat = tf.concat(tf.nest.flatten(query), 1)
        readings = []
        for head in range(heads):
            with v1.variable_scope(f"Attention_{head}"):
                mapped = tf.expand_dims(linear(flat, size, True), 1)
            scores = tf.reduce_sum(vectors[head] * tf.tanh(hidden[head] + mapped), 2)
            shares = tf.expand_dims(tf.nn.softmax(scores), 2)
            readings.append(tf.reduce_sum(shares * states, 1))
        return readings

    return read


def _check(inputs: Sequence[Tensor], states: Tensor, heads: int) -> None:
    if not inputs:
        raise ValueError("attention_decoder takes one or more decoder_inputs, got none.")
    if heads < 1:
        raise ValueError(f"attention_decoder got num_heads={heads}, but it must be at least 1.")
    if states.shape.rank != 3 or states.shape.as_list()[2] is None:
        raise ValueError(
            "attention_decoder takes attention_states [batch, time, size] of known size, got the "
            f"shape {states.shape}."
        )


def _width(inputs: Tensor) -> int:
    width = inputs.shape.as_list()[1]
    if width is None:
        raise ValueError(f"attention_decoder needs inputs of known size, got {inputs.shape}.")
    return int(width)
