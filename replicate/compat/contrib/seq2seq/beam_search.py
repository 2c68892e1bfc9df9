"""A decoder that keeps the best sequences of each entry of the batch.

The length penalty and the coverage penalty are those of Wu et al., "Google's Neural Machine
Translation System" (2016), section 7.
"""

import collections
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.cells.checks import checked_cell
from replicate.compat.contrib.seq2seq.basic_decoder import check_layer
from replicate.compat.contrib.seq2seq.beams import gather_tree, gather_tree_from_array
from replicate.compat.contrib.seq2seq.decoder import Decoder
from replicate.compat.contrib.seq2seq.helpers import embedding_fn

v1 = tf.compat.v1

BeamSearchDecoderState = collections.namedtuple(
    "BeamSearchDecoderState",
    ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs"),
)
"""State of a `BeamSearchDecoder`: all but the last are [batch, beam, …]."""

BeamSearchDecoderOutput = collections.namedtuple(
    "BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids")
)
"""Outputs of a step: score, id and earlier beam of each beam, [batch, beam]."""

FinalBeamSearchDecoderOutput = collections.namedtuple(
    "FinalBeamSearchDecoderOutput", ("predicted_ids", "beam_search_decoder_output")
)
"""Sequences of the beams, the best first, [batch, time, beam], and the outputs of the steps."""


class BeamSearchDecoder(Decoder):
    """A decoder that keeps the `beam_width` sequences with the highest scores."""

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Tensor,
        end_token: Tensor,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        """Keeps the parts.

        Args:
          cell: A cell. An AttentionWrapper needs a memory repeated by `tile_batch`.
          embedding: A function of ids, or the params of `tf.nn.embedding_lookup`.
          start_tokens: First id of each sequence, [batch].
          end_token: Id that ends a sequence.
          initial_state: State of the cell, [batch·beam, …]: repeated by `tile_batch`.
          beam_width: Number of sequences.
          output_layer: A layer of tf.layers that makes logits of outputs, None for none.
          length_penalty_weight: Exponent of the length penalty, 0 for none.
          coverage_penalty_weight: Weight of the coverage penalty, 0 for none.
          reorder_tensor_arrays: True to put the TensorArrays in the last state, such as
            alignment_history, into the order of the beams.

        Raises:
          TypeError: It is no cell or no layer.
          ValueError: start_tokens is not a vector, or end_token not a scalar.
        """
        self._cell = checked_cell("BeamSearchDecoder", cell)
        check_layer("BeamSearchDecoder", output_layer)
        start, end = tf.cast(start_tokens, tf.int32), tf.cast(end_token, tf.int32)
        if start.shape.rank not in (None, 1):
            raise ValueError(f"start_tokens must be a vector, got the shape {start.shape}.")
        if end.shape.rank:
            raise ValueError(f"end_token must be a scalar, got the shape {end.shape}.")
        self._layer = output_layer
        self._embed = embedding_fn(embedding)
        self._end = end
        self._beam = beam_width
        self._length_weight = length_penalty_weight
        self._coverage_weight = coverage_penalty_weight
        self._reorders = reorder_tensor_arrays
        self._static_batch = start.shape.as_list()[0] if start.shape.rank else None
        self._batch = tf.size(start)
        self._initial_state = tf.nest.map_structure(self._split, initial_state)
        tokens = tf.tile(tf.expand_dims(start, 1), [1, beam_width])
        self._start_inputs = self._embed(tokens)

    @property
    def batch_size(self) -> Tensor:
        """Number of entries of the batch."""
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change places."""
        return True

    @property
    def output_size(self) -> Any:
        """Sizes of a step's outputs, one for each beam."""
        beams = tf.TensorShape([self._beam])
        return BeamSearchDecoderOutput(scores=beams, predicted_ids=beams, parent_ids=beams)

    @property
    def output_dtype(self) -> Any:
        """Types of a step's outputs."""
        return BeamSearchDecoderOutput(self._dtype, tf.int32, tf.int32)

    @property
    def _dtype(self) -> Any:
        return tf.nest.flatten(self._initial_state)[0].dtype

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch, beam], first inputs, first state): only beam 0 may go on."""
        first = tf.one_hot(
            tf.zeros([self._batch], tf.int32), self._beam, True, False, dtype=tf.bool
        )
        zeros = tf.zeros([self._batch, self._beam], self._dtype)
        state = BeamSearchDecoderState(
            cell_state=self._initial_state,
            log_probs=tf.where(first, zeros, zeros - float("inf")),
            finished=tf.logical_not(first),
            lengths=tf.zeros([self._batch, self._beam], tf.int64),
            accumulated_attention_probs=self._first_coverage(),
        )
        return state.finished, self._start_inputs, state

    def step(
        self, time: Tensor, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Tensor]:
        """Makes a step; arguments and results are those of `Decoder`."""
        with v1.name_scope(name, "BeamSearchDecoderStep", [time]):
            merged = tf.nest.map_structure(self._merge, state.cell_state)
            outputs, cell_state = self._cell(tf.nest.map_structure(self._merge, inputs), merged)
            if self._layer is not None:
                outputs = self._layer(outputs)
            logits = self._split(outputs)
            cell_state = tf.nest.map_structure(self._split, cell_state)
            output, state = self._search(logits, cell_state, state)
            next_inputs = tf.cond(
                tf.reduce_all(state.finished),
                lambda: self._start_inputs,
                lambda: self._embed(output.predicted_ids),
            )
        return output, state, next_inputs, state.finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """Follows the beams back.

        Args:
          outputs: Outputs of all steps, [time, batch, beam].
          final_state: State after the last step.
          sequence_lengths: Not used: the state has the lengths.

        Returns:
          (FinalBeamSearchDecoderOutput, state).
        """
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        if self._reorders:

            def ordered(each: Any) -> Any:
                if not isinstance(each, tf.TensorArray):
                    return each
                return gather_tree_from_array(each.stack(), outputs.parent_ids, final_state.lengths)

            cell_state = tf.nest.map_structure(ordered, final_state.cell_state)
            final_state = final_state._replace(cell_state=cell_state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _search(self, logits: Tensor, cell_state: Any, state: Any) -> tuple[Any, Any]:
        """Chooses the best continuations of all beams together."""
        classes = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        steps = self._log_probs(logits, state.finished, classes)
        totals = tf.expand_dims(state.log_probs, 2) + steps
        is_open = tf.logical_not(state.finished)
        is_end = tf.equal(tf.range(classes), self._end)
        grows = tf.logical_and(tf.expand_dims(is_open, 2), tf.logical_not(is_end))
        lengths = tf.expand_dims(state.lengths, 2) + tf.cast(grows, tf.int64)
        coverage = self._coverage(cell_state, state, is_open)
        scores = self._scores(totals, lengths, state.finished, coverage)
        flat = tf.reshape(scores, [self._batch, self._beam * classes])
        best, places = tf.nn.top_k(flat, self._beam)
        beams, ids = places // classes, places % classes
        was_finished = tf.gather(state.finished, beams, batch_dims=1)
        flat_totals = tf.reshape(totals, [self._batch, self._beam * classes])
        new = BeamSearchDecoderState(
            cell_state=tf.nest.map_structure(lambda each: self._taken(each, beams), cell_state),
            log_probs=self._shaped(tf.gather(flat_totals, places, batch_dims=1)),
            finished=self._shaped(tf.logical_or(was_finished, tf.equal(ids, self._end))),
            lengths=self._shaped(
                tf.gather(state.lengths, beams, batch_dims=1)
                + tf.cast(tf.logical_not(was_finished), tf.int64)
            ),
            accumulated_attention_probs=tf.nest.map_structure(
                lambda each: tf.gather(each, beams, batch_dims=1), coverage
            ),
        )
        return BeamSearchDecoderOutput(*map(self._shaped, (best, ids, beams))), new

    def _log_probs(self, logits: Tensor, finished: Tensor, classes: Any) -> Tensor:
        """Log-probabilities; a finished beam can only go on with the end token."""
        probabilities = tf.nn.log_softmax(logits)
        only_end = tf.one_hot(
            self._end, classes, tf.zeros([], logits.dtype), logits.dtype.min, dtype=logits.dtype
        )
        return tf.where(tf.expand_dims(finished, 2), only_end, probabilities)

    def _scores(self, totals: Tensor, lengths: Tensor, finished: Tensor, coverage: Any) -> Tensor:
        scores = totals
        if self._length_weight:
            penalty = ((5.0 + tf.cast(lengths, totals.dtype)) / 6.0) ** self._length_weight
            scores = totals / penalty
        if self._coverage_weight:
            covered = tf.reduce_sum(tf.math.log(tf.minimum(coverage, 1.0)), 2)
            is_open = tf.logical_not(tf.reduce_all(finished, axis=1, keepdims=True))
            penalty = self._coverage_weight * tf.where(is_open, covered, tf.zeros_like(covered))
            scores += tf.expand_dims(penalty, 2)
        return scores

    def _first_coverage(self) -> Any:
        if not self._coverage_weight:
            return ()
        return tf.zeros_like(_alignments(self._initial_state))

    def _coverage(self, cell_state: Any, state: Any, is_open: Tensor) -> Any:
        if not self._coverage_weight:
            return ()
        shares = _alignments(cell_state)
        shares *= tf.cast(tf.expand_dims(is_open, 2), shares.dtype)
        return state.accumulated_attention_probs + shares

    def _taken(self, values: Any, beams: Tensor) -> Any:
        if isinstance(values, tf.TensorArray) or not values.shape.rank:
            return values
        taken = tf.gather(values, beams, batch_dims=1)
        taken.set_shape(values.shape)
        return taken

    def _shaped(self, values: Tensor) -> Tensor:
        values.set_shape([self._static_batch, self._beam])
        return values

    def _split(self, values: Any) -> Any:
        """Makes [batch, beam, …] of [batch·beam, …]."""
        if isinstance(values, tf.TensorArray):
            return values
        values = tf.convert_to_tensor(values)
        if not values.shape.rank:
            return values
        rest = values.shape[1:]
        split = tf.reshape(values, tf.concat([[self._batch, self._beam], tf.shape(values)[1:]], 0))
        split.set_shape(tf.TensorShape([self._static_batch, self._beam]).concatenate(rest))
        return split

    def _merge(self, values: Any) -> Any:
        """Makes [batch·beam, …] of [batch, beam, …]."""
        if isinstance(values, tf.TensorArray) or not values.shape.rank:
            return values
        merged = tf.reshape(
            values, tf.concat([[self._batch * self._beam], tf.shape(values)[2:]], 0)
        )
        count = None if self._static_batch is None else self._static_batch * self._beam
        merged.set_shape(tf.TensorShape([count]).concatenate(values.shape[2:]))
        return merged


def _alignments(cell_state: Any) -> Tensor:
    """Returns the alignments of an AttentionWrapper's state, side by side, [batch, beam, time].

    Raises:
      ValueError: The cell has no attention.
    """
    states = [cell_state] if hasattr(cell_state, "alignments") else cell_state
    for each in states if isinstance(states, list | tuple) else ():
        if hasattr(each, "alignments"):
            return tf.concat(tf.nest.flatten(each.alignments), -1)
    raise ValueError(
        "BeamSearchDecoder got a coverage_penalty_weight, so its cell must be an AttentionWrapper."
    )
