"""Attention that moves forward only: Raffel et al. (2017), sections 2.3 to 2.5.

`p[i]` is the probability that attention stops at time i of the memory if it comes there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.contrib.seq2seq.attention import (
    MemoryAttention,
    bahdanau_score,
    luong_score,
)

v1 = tf.compat.v1
_MODES = ("hard", "parallel", "recursive")
_SMALL = 1e-10


def safe_cumprod(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Computes `tf.math.cumprod` of values in [0, 1] by logarithms, for stable gradients.

    Args:
      x: Values.
      *args: Further arguments of `tf.math.cumsum`.
      **kwargs: Further arguments of `tf.math.cumsum`, such as `axis` and `exclusive`.
    """
    with v1.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x)
        least = np.finfo(x.dtype.as_numpy_dtype).tiny
        logs = tf.math.log(tf.clip_by_value(x, least, 1))
        return tf.exp(tf.cumsum(logs, *args, **kwargs))


def monotonic_attention(p_choose_i: Tensor, previous_attention: Tensor, mode: str) -> Tensor:
    """Computes the shares of the times of a memory, from those of the step before.

    Args:
      p_choose_i: Probabilities to stop, [batch, time].
      previous_attention: Shares of the step before, [batch, time]; all on time 0 at first.
      mode: "recursive" or "parallel" for expected shares, equation (11), time by time or by
        cumulative sums; "hard" for shares 0 or 1, of probabilities that are 0 or 1.

    Raises:
      ValueError: There is no such mode.
    """
    p, previous = tf.convert_to_tensor(p_choose_i), tf.convert_to_tensor(previous_attention)
    if mode == "recursive":
        zeros = tf.zeros([tf.shape(p)[0]], p.dtype)
        passed = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)
        reached = tf.scan(
            lambda before, now: now[0] * before + now[1],
            (tf.transpose(passed), tf.transpose(previous)),
            initializer=zeros,
        )
        return p * tf.transpose(reached)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * tf.cumsum(previous / tf.clip_by_value(passed, _SMALL, 1.0), axis=1)
    if mode == "hard":
        p *= tf.cumsum(previous, axis=1)
        return p * tf.math.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError(f"monotonic_attention got mode={mode!r}, which must be one of {_MODES}.")


class _Monotonic(MemoryAttention):
    """An attention mechanism that moves forward only."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """Returns 1 at the first time, [batch, time]."""
        return tf.one_hot(tf.zeros([batch_size], tf.int32), self.alignments_size, dtype=dtype)

    def _aligned(self, score: Tensor, start: float, state: Tensor) -> tuple[Tensor, Tensor]:
        bias = v1.get_variable(
            "attention_score_bias", [], score.dtype, initializer=v1.constant_initializer(start)
        )
        alignments = self._probability_fn(score + bias, state)
        return alignments, alignments


class BahdanauMonotonicAttention(_Monotonic):
    """Monotonic attention by the score of `BahdanauAttention`.

    Variables: those of `BahdanauAttention`, and attention_score_bias [].
    """

    def __init__(
        self,
        num_units: int,
        memory: Tensor,
        memory_sequence_length: Tensor | None = None,
        normalize: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        """Makes keys of a memory.

        Args:
          num_units: Size of keys and queries.
          memory: Outputs of an encoder, [batch, time, size].
          memory_sequence_length: Lengths, [batch], at least 1. All times if None.
          normalize: True to normalize attention_v.
          score_mask_value: Score after the end of a sequence, −∞ if None.
          sigmoid_noise: Standard deviation of what is added to the scores, while training.
          sigmoid_noise_seed: Its seed.
          score_bias_init: First value of attention_score_bias.
          mode: As for `monotonic_attention`; "hard" stops at scores above 0.
          dtype: Type of the variables, float32 if None.
          name: Name of the operations.
        """
        super().__init__(
            name,
            memory,
            memory_sequence_length,
            num_units,
            True,
            _stops(sigmoid_noise, mode, sigmoid_noise_seed),
            score_mask_value,
            None,
            dtype,
        )
        self._normalize = normalize
        self._score_bias_init = score_bias_init

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Aligns a query [batch, size] with the memory: (shares [batch, time], next state)."""
        with v1.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            score = bahdanau_score(self.query_layer(query), self.keys, self._normalize)
            return self._aligned(score, self._score_bias_init, state)


class LuongMonotonicAttention(_Monotonic):
    """Monotonic attention by the score of `LuongAttention`.

    Variables: those of `LuongAttention`, and attention_score_bias [].
    """

    def __init__(
        self,
        num_units: int,
        memory: Tensor,
        memory_sequence_length: Tensor | None = None,
        scale: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        """Makes keys of a memory.

        The arguments are those of `BahdanauMonotonicAttention`. `scale` is True to scale the scores
        by a variable.
        """
        super().__init__(
            name,
            memory,
            memory_sequence_length,
            num_units,
            False,
            _stops(sigmoid_noise, mode, sigmoid_noise_seed),
            score_mask_value,
            None,
            dtype,
        )
        self._scale = scale
        self._score_bias_init = score_bias_init

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Aligns a query [batch, num_units] with the memory: (shares [batch, time], next state).

        Raises:
          ValueError: The query has another size than the keys.
        """
        with v1.variable_scope(None, "luong_monotonic_attention", [query]):
            score = luong_score(query, self.keys, self._scale)
            return self._aligned(score, self._score_bias_init, state)


def _stops(noise: float, mode: str, seed: int | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns the function of score and previous shares that gives the shares."""

    def shares(score: Tensor, previous: Tensor) -> Tensor:
        if noise > 0:
            drawn = tf.random.normal(tf.shape(score), dtype=score.dtype, seed=seed)
            score += noise * drawn
        p = tf.cast(score > 0, score.dtype) if mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(p, previous, mode)

    return shares
