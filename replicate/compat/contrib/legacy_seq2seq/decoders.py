"""Decoders of a list of inputs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def rnn_decoder(
    decoder_inputs: Iterable[Tensor],
    initial_state: Any,
    cell: Any,
    loop_function: Callable[[Tensor, int], Tensor] | None = None,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Runs a cell over inputs.

    Args:
      decoder_inputs: For each time, [batch, size].
      initial_state: First state of the cell.
      cell: A cell.
      loop_function: Function of the last output and the number of the time that gives the input, in
        place of all inputs but the first. None to use the inputs.
      scope: Scope of the variables, "rnn_decoder" if None.

    Returns:
      (outputs of all times, last state).
    """
    with v1.variable_scope(scope or "rnn_decoder"):
        outputs: list[Tensor] = []
        state = initial_state
        for time, given in enumerate(decoder_inputs):
            inputs = looped(loop_function, outputs, time, given)
            if time:
                v1.get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


def looped(
    function: Callable[[Tensor, int], Tensor] | None,
    outputs: Sequence[Tensor],
    time: int,
    given: Tensor,
) -> Tensor:
    """Returns the input of a time: that of the batch, or what a loop function makes."""
    if function is None or not outputs:
        return given
    with v1.variable_scope("loop_function", reuse=True):
        return function(outputs[-1], time)


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Tensor],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: tuple[Tensor, Tensor] | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Tensor], Any]:
    """Runs a cell over the embeddings of ids; its variable is embedding.

    Args:
      decoder_inputs: Ids for each time, [batch].
      initial_state: First state of the cell.
      cell: A cell.
      num_symbols: Number of ids.
      embedding_size: Size of the embeddings.
      output_projection: Weights and biases that make logits of outputs, for feed_previous.
      feed_previous: True to use the id of the largest logit as the next input.
      update_embedding_for_previous: False to give no gradients to embeddings of such ids.
      scope: Scope of the variables, "embedding_rnn_decoder" if None.

    Returns:
      (outputs of all times, last state).
    """
    with v1.variable_scope(scope or "embedding_rnn_decoder"):
        embedding = v1.get_variable("embedding", [num_symbols, embedding_size])
        loop = None
        if feed_previous:
            loop = best_embedding(embedding, output_projection, update_embedding_for_previous)
        embedded = [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop)


def best_embedding(
    embedding: Tensor, projection: tuple[Tensor, Tensor] | None, updates: bool
) -> Callable[[Tensor, int], Tensor]:
    """Returns a loop function that gives the embedding of the largest logit.

    Args:
      embedding: [ids, size].
      projection: Weights and biases that make logits of outputs; None if outputs are logits.
      updates: False to give no gradients to the embedding.
    """

    def function(previous: Tensor, time: int) -> Tensor:
        del time
        logits = previous if projection is None else tf.matmul(previous, projection[0])
        logits = logits if projection is None else logits + projection[1]
        embedded = tf.nn.embedding_lookup(embedding, tf.argmax(logits, 1))
        return embedded if updates else tf.stop_gradient(embedded)

    return function
