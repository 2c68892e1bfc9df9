"""tf.contrib.crf: linear-chain conditional random fields.

The model is that of Lafferty, McCallum and Pereira, "Conditional Random Fields" (2001), section 3:
the score of a sequence of tags is the sum of the scores of its tags and of its transitions.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def crf_log_likelihood(
    inputs: Tensor,
    tag_indices: Tensor,
    sequence_lengths: Tensor,
    transition_params: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the log-likelihood of sequences of tags.

    Args:
      inputs: Scores of the tags, [batch, time, tags].
      tag_indices: Tags, [batch, time], integers.
      sequence_lengths: Lengths of the sequences, [batch].
      transition_params: Scores of transitions, [tags, tags]. None for the variable "transitions".

    Returns:
      (log-likelihoods [batch], transition_params).
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        tags = inputs.shape.as_list()[2]
        transition_params = v1.get_variable("transitions", [tags, tags], inputs.dtype)
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_sequence_score(
    inputs: Tensor, tag_indices: Tensor, sequence_lengths: Tensor, transition_params: Tensor
) -> Tensor:
    """Computes the scores of sequences of tags, [batch]; arguments as for `crf_log_likelihood`."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(
    inputs: Tensor, tag_bitmap: Tensor, sequence_lengths: Tensor, transition_params: Tensor
) -> Tensor:
    """Computes the log of the summed exponential scores of all sequences that a bitmap allows.

    The bitmap is True for each allowed tag, [batch, time, tags]. The other arguments are those of
    `crf_log_likelihood`.
    """
    inputs = tf.convert_to_tensor(inputs)
    allowed = tf.where(tf.cast(tag_bitmap, tf.bool), inputs, tf.fill(tf.shape(inputs), -np.inf))
    return crf_log_norm(allowed, sequence_lengths, transition_params)


def crf_unary_score(tag_indices: Tensor, sequence_lengths: Tensor, inputs: Tensor) -> Tensor:
    """Sums the scores of the tags, [batch]; arguments as for `crf_log_likelihood`."""
    scores = tf.gather(inputs, tf.convert_to_tensor(tag_indices), batch_dims=2)
    inside = _mask(sequence_lengths, inputs)
    return tf.reduce_sum(tf.where(inside, scores, tf.zeros_like(scores)), 1)


def crf_binary_score(
    tag_indices: Tensor, sequence_lengths: Tensor, transition_params: Tensor
) -> Tensor:
    """Sums the scores of the transitions, [batch]; arguments as for `crf_log_likelihood`."""
    tags = tf.convert_to_tensor(tag_indices)
    steps = tf.stack([tags[:, :-1], tags[:, 1:]], -1)
    scores = tf.gather_nd(tf.convert_to_tensor(transition_params), steps)
    counts = _mask(tf.cast(sequence_lengths, tf.int32) - 1, scores)
    return tf.reduce_sum(tf.where(counts, scores, tf.zeros_like(scores)), 1)


def crf_log_norm(inputs: Tensor, sequence_lengths: Tensor, transition_params: Tensor) -> Tensor:
    """Computes the log of the summed exponential scores of all sequences of tags, [batch].

    It is 0 for a sequence of length 0. Arguments as for `crf_log_likelihood`.
    """
    inputs = tf.convert_to_tensor(inputs)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)

    def step(alphas: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        scores, is_first, is_inside = now
        later = tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + transitions, 1) + scores
        return _chosen(is_inside, _chosen(is_first, scores, later), alphas)

    alphas = tf.scan(step, _steps(inputs, sequence_lengths), tf.zeros_like(inputs[:, 0]))
    norm = tf.reduce_logsumexp(alphas[-1], 1)
    return tf.where(tf.cast(sequence_lengths, tf.int32) > 0, norm, tf.zeros_like(norm))


def crf_decode(
    potentials: Tensor, transition_params: Tensor, sequence_length: Tensor
) -> tuple[Tensor, Tensor]:
    """Finds the sequences of tags with the highest scores.

    Args:
      potentials: Scores of the tags, [batch, time, tags].
      transition_params: Scores of transitions, [tags, tags].
      sequence_length: Lengths of the sequences, [batch].

    Returns:
      (tags [batch, time], int32 and 0 after the end of a sequence; their scores [batch]).
    """
    inputs = tf.convert_to_tensor(potentials)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)
    steps = _steps(inputs, sequence_length)
    same = tf.zeros_like(inputs[:, 0], tf.int32) + tf.range(tf.shape(inputs)[2])

    def forward(
        state: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        scores, is_first, is_inside = now
        through = tf.expand_dims(state[0], 2) + transitions
        best = _chosen(is_first, scores, tf.reduce_max(through, 1) + scores)
        origins = _chosen(is_first, same, tf.argmax(through, 1, output_type=tf.int32))
        return _chosen(is_inside, best, state[0]), _chosen(is_inside, origins, same)

    totals, origins = tf.scan(forward, steps, (inputs[:, 0], same))
    last = tf.argmax(totals[-1], 1, output_type=tf.int32)

    def backward(tag: Tensor, origin: Tensor) -> Tensor:
        return tf.gather(origin, tag, batch_dims=1)

    earlier = tf.scan(backward, origins, last, reverse=True)
    tags = tf.transpose(tf.concat([earlier[1:], tf.expand_dims(last, 0)], 0))
    inside = _mask(sequence_length, inputs)
    return tf.where(inside, tags, tf.zeros_like(tags)), tf.reduce_max(totals[-1], 1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """Finds the sequence of tags with the highest score, with NumPy: (tags, their score).

    Scores are [time, tags], those of transitions [tags, tags].
    """
    scores, transitions = np.asarray(score), np.asarray(transition_params)
    best = scores[0]
    origins = []
    for now in scores[1:]:
        through = best[:, None] + transitions
        origins.append(np.argmax(through, 0))
        best = np.max(through, 0) + now
    tags = [int(np.argmax(best))]
    for origin in reversed(origins):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1], np.max(best)


def _mask(lengths: Tensor, like: Tensor) -> Tensor:
    return tf.sequence_mask(tf.cast(lengths, tf.int32), tf.shape(like)[1])


def _steps(inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns for each time the scores, True at the first one, and True inside of each sequence."""
    scores = tf.transpose(inputs, [1, 0, 2])
    is_first = tf.equal(tf.range(tf.shape(scores)[0]), 0)
    return scores, is_first, tf.transpose(_mask(lengths, inputs))


def _chosen(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Chooses rows by a condition, [batch] or scalar."""
    if condition.shape.rank:
        condition = tf.expand_dims(condition, 1)
    return tf.where(condition, one, other)
