"""Models of an encoder and a decoder, and their losses by buckets of lengths."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.contrib.legacy_seq2seq.attention import embedding_attention_decoder
from replicate.compat.contrib.legacy_seq2seq.decoders import embedding_rnn_decoder, rnn_decoder
from replicate.compat.contrib.legacy_seq2seq.losses import (
    sequence_loss,
    sequence_loss_by_example,
)
from replicate.compat.contrib.rnn import EmbeddingWrapper, OutputProjectionWrapper

v1 = tf.compat.v1
_Decode = Callable[[bool], tuple[list[Tensor], Any]]


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Tensor],
    decoder_inputs: Sequence[Tensor],
    cell: Any,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Runs a cell as encoder, and a copy of it as decoder.

    Args:
      encoder_inputs: For each time, [batch, size].
      decoder_inputs: For each time, [batch, size].
      cell: A cell.
      dtype: Type of the first state.
      scope: Scope of the variables, "basic_rnn_seq2seq" if None.

    Returns:
      (outputs of the decoder, its last state).
    """
    with v1.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = v1.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Tensor],
    decoder_inputs: Sequence[Tensor],
    cell: Any,
    loop_function: Callable[[Tensor, int], Tensor] | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Runs one cell as encoder and as decoder.

    The arguments are those of `basic_rnn_seq2seq`, and the loop_function of `rnn_decoder`. The
    scope is "tied_rnn_seq2seq" if None.

    Returns:
      (outputs of the decoder, its last state).
    """
    with v1.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = v1.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        v1.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Tensor],
    decoder_inputs: Sequence[Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: tuple[Tensor, Tensor] | None = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Runs an encoder and a decoder of ids.

    Args:
      encoder_inputs: Ids for each time, [batch].
      decoder_inputs: Ids for each time, [batch].
      cell: A cell, copied for the encoder.
      num_encoder_symbols: Number of the encoder's ids.
      num_decoder_symbols: Number of the decoder's ids.
      embedding_size: Size of the embeddings.
      output_projection: Weights and biases that make logits of outputs. None for a linear map, so
        that the outputs are logits.
      feed_previous: True, or a tensor, to use the id of the largest logit as the next input.
      dtype: Type of the first state, that of the scope if None.
      scope: Scope of the variables, "embedding_rnn_seq2seq" if None.

    Returns:
      (outputs of the decoder, its last state).
    """
    with v1.variable_scope(scope or "embedding_rnn_seq2seq") as variables:
        dtype = dtype or variables.dtype
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = v1.nn.static_rnn(encoder, encoder_inputs, dtype=dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeds: bool) -> tuple[list[Tensor], Any]:
            return embedding_rnn_decoder(
                decoder_inputs,
                state,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection,
                feeds,
                update_embedding_for_previous=isinstance(feed_previous, bool),
            )

        return _fed(decode, feed_previous)


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Tensor],
    decoder_inputs: Sequence[Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: tuple[Tensor, Tensor] | None = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Tensor], Any]:
    """Runs an encoder of ids, and a decoder with attention over its outputs.

    The arguments are those of `embedding_rnn_seq2seq`. `num_heads` is the number of attention
    heads; `initial_state_attention` is True to read by the first state of the decoder. The scope is
    "embedding_attention_seq2seq" if None.

    Returns:
      (outputs of the decoder, its last state).
    """
    with v1.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as variables:
        dtype = dtype or variables.dtype
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = v1.nn.static_rnn(encoder, encoder_inputs, dtype=dtype)
        attention_states = tf.stack(outputs, 1)
        size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            size = num_decoder_symbols

        def decode(feeds: bool) -> tuple[list[Tensor], Any]:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                attention_states,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads,
                size,
                output_projection,
                feeds,
                update_embedding_for_previous=isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
            )

        return _fed(decode, feed_previous)


def model_with_buckets(
    encoder_inputs: Sequence[Tensor],
    decoder_inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    weights: Sequence[Tensor],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[list[Tensor], Any]],
    softmax_loss_function: Callable[..., Tensor] | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Builds a model for each bucket of lengths; all have the same variables.

    Args:
      encoder_inputs: For each time, as `seq2seq` takes them.
      decoder_inputs: For each time, as `seq2seq` takes them.
      targets: Classes for each time, [batch].
      weights: For each time, [batch].
      buckets: Lengths of encoder and decoder, the longest last.
      seq2seq: Function of encoder and decoder inputs that gives (outputs, state).
      softmax_loss_function: As for `sequence_loss`.
      per_example_loss: True for losses [batch], False for scalars.
      name: Name of the operations.

    Returns:
      (outputs of each bucket, loss of each bucket).

    Raises:
      ValueError: There are fewer inputs, targets or weights than the last bucket needs.
    """
    encoder, decoder = buckets[-1]
    for kind, values, least in (
        ("encoder_inputs", encoder_inputs, encoder),
        ("targets", targets, decoder),
        ("weights", weights, decoder),
    ):
        if len(values) < least:
            raise ValueError(
                f"The last bucket, {buckets[-1]}, needs {least} {kind}, got {len(values)}."
            )
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with v1.name_scope(name, "model_with_buckets"):
        for number, (encoder, decoder) in enumerate(buckets):
            with v1.variable_scope(v1.get_variable_scope(), reuse=True if number else None):
                found, _ = seq2seq(encoder_inputs[:encoder], decoder_inputs[:decoder])
                outputs.append(found)
                losses.append(
                    loss(
                        found,
                        targets[:decoder],
                        weights[:decoder],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses


def _fed(decode: _Decode, feed_previous: Any) -> tuple[list[Tensor], Any]:
    """Decodes with the ids of the batch, with its own ones, or by a tensor with either."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)

    def branch(feeds: bool) -> Any:
        with v1.variable_scope(v1.get_variable_scope(), reuse=None if feeds else True):
            outputs, state = decode(feeds)
        return outputs, state

    return tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
