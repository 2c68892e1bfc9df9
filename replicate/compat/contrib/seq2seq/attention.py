"""Attention mechanisms: the shares of a memory's times that a query looks at."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.layers.core import Dense

v1 = tf.compat.v1


class AttentionMechanism(abc.ABC):
    """An attention mechanism."""

    @property
    @abc.abstractmethod
    def alignments_size(self) -> Any:
        """Number of the memory's times."""

    @property
    @abc.abstractmethod
    def state_size(self) -> Any:
        """Size of the state."""


class MemoryAttention(AttentionMechanism):
    """An attention mechanism over a memory, whose state is the last alignments.

    A subclass has `__call__(query, state)`, which gives (alignments [batch, time], next state).

    Attributes:
      memory_layer: Layer that makes keys of the memory.
      query_layer: Layer of the query, or None.
      values: The memory, 0 after the end of each sequence, [batch, time, size].
      keys: Keys of the memory, [batch, time, units].
      batch_size: Number of sequences.
    """

    def __init__(
        self,
        name: str,
        memory: Any,
        lengths: Any,
        num_units: int,
        has_query_layer: bool,
        probability_fn: Callable[[Tensor, Tensor], Tensor],
        score_mask_value: float | None,
        custom_key_value_fn: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None,
        dtype: Any,
    ) -> None:
        self.dtype = tf.as_dtype(dtype or tf.float32)
        self.memory_layer = _linear_layer(num_units, "memory_layer", self.dtype)
        self.query_layer: Any = (
            _linear_layer(num_units, "query_layer", self.dtype) if has_query_layer else None
        )
        self._num_units = num_units
        self._shares = probability_fn
        self._mask_value = -np.inf if score_mask_value is None else score_mask_value
        with v1.name_scope(None, f"{name}Init", tf.nest.flatten(memory)):
            self.values, self._memory_sequence_length = _masked(memory, lengths)
            self.keys = self.memory_layer(self.values)
            if custom_key_value_fn is not None:
                self.keys, self.values = custom_key_value_fn(self.keys, self.values)
            self.batch_size = self.keys.shape.as_list()[0] or tf.shape(self.keys)[0]
            self._size = self.keys.shape.as_list()[1] or tf.shape(self.keys)[1]

    @property
    def alignments_size(self) -> Any:
        """Number of the memory's times."""
        return self._size

    @property
    def state_size(self) -> Any:
        """Number of the memory's times."""
        return self._size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """Returns zeros, [batch, time]."""
        return tf.zeros([batch_size, self._size], dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Tensor:
        """Returns the first state, zeros; arguments as for `initial_alignments`."""
        return self.initial_alignments(batch_size, dtype)

    def _probability_fn(self, score: Tensor, previous_alignments: Tensor) -> Tensor:
        """Returns the alignments of a score [batch, time]; programs' mechanisms call it, too."""
        if self._memory_sequence_length is not None:
            inside = tf.sequence_mask(self._memory_sequence_length, tf.shape(score)[1])
            outside = tf.fill(tf.shape(score), tf.constant(self._mask_value, score.dtype))
            score = tf.where(inside, score, outside)
        return self._shares(score, previous_alignments)


class LuongAttention(MemoryAttention):
    """Multiplicative attention: Luong, Pham and Manning (2015), section 3.1, "general".

    Variables: memory_layer/kernel [size, num_units]; with `scale` attention_g [].
    """

    def __init__(
        self,
        num_units: int,
        memory: Tensor,
        memory_sequence_length: Tensor | None = None,
        scale: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        """Makes keys of a memory.

        Args:
          num_units: Size of keys and queries.
          memory: Outputs of an encoder, [batch, time, size].
          memory_sequence_length: Lengths, [batch], at least 1. All times if None.
          scale: True to scale the scores by a variable.
          probability_fn: Makes shares of scores [batch, time], the softmax if None.
          score_mask_value: Score after the end of a sequence, −∞ if None.
          dtype: Type of the variables, float32 if None.
          custom_key_value_fn: Changes keys and values.
          name: Name of the operations.
        """
        super().__init__(
            name,
            memory,
            memory_sequence_length,
            num_units,
            False,
            _of_score(probability_fn),
            score_mask_value,
            custom_key_value_fn,
            dtype,
        )
        self._scale = scale

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Aligns a query [batch, num_units] with the memory.

        Returns:
          (shares [batch, time], next state).

        Raises:
          ValueError: The query has another size than the keys.
        """
        with v1.variable_scope(None, "luong_attention", [query]):
            alignments = self._probability_fn(luong_score(query, self.keys, self._scale), state)
        return alignments, alignments


class BahdanauAttention(MemoryAttention):
    """Additive attention: Bahdanau, Cho and Bengio (2014), section 3.1.

    `normalize` is weight normalization: Salimans and Kingma (2016), section 2. Variables:
    memory_layer/kernel [size, num_units], query_layer/kernel [query, num_units], attention_v
    [num_units]; with `normalize` attention_g [] and attention_b [num_units].
    """

    def __init__(
        self,
        num_units: int,
        memory: Tensor,
        memory_sequence_length: Tensor | None = None,
        normalize: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        """Makes keys of a memory.

        The arguments are those of `LuongAttention`. `normalize` is True to normalize attention_v.
        """
        super().__init__(
            name,
            memory,
            memory_sequence_length,
            num_units,
            True,
            _of_score(probability_fn),
            score_mask_value,
            custom_key_value_fn,
            dtype,
        )
        self._normalize = normalize

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Aligns a query [batch, size] with the memory.

        Returns:
          (shares [batch, time], next state).
        """
        with v1.variable_scope(None, "bahdanau_attention", [query]):
            score = bahdanau_score(self.query_layer(query), self.keys, self._normalize)
            alignments = self._probability_fn(score, state)
        return alignments, alignments


def luong_score(query: Tensor, keys: Tensor, scale: bool) -> Tensor:
    """Scores keys [batch, time, units] by a query [batch, units]: [batch, time].

    Raises:
      ValueError: The query has another size than the keys.
    """
    depth, units = query.shape.as_list()[-1], keys.shape.as_list()[-1]
    if depth != units:
        raise ValueError(
            f"LuongAttention got queries of {depth} units, the outputs of the cell, but its keys "
            f"have {units}: set num_units={depth}."
        )
    score = tf.squeeze(tf.matmul(keys, tf.expand_dims(query, 2)), 2)
    if not scale:
        return score
    return score * v1.get_variable(
        "attention_g", [], query.dtype, initializer=v1.ones_initializer()
    )


def bahdanau_score(query: Tensor, keys: Tensor, normalize: bool) -> Tensor:
    """Scores keys [batch, time, units] by what query_layer makes of a query: [batch, time]."""
    units, dtype = keys.shape.as_list()[-1], query.dtype
    hidden = keys + tf.expand_dims(query, 1)
    vector = v1.get_variable("attention_v", [units], dtype)
    if normalize:
        start = v1.constant_initializer((1.0 / units) ** 0.5)
        gain = v1.get_variable("attention_g", [], dtype, initializer=start)
        zeros = v1.zeros_initializer()
        hidden += v1.get_variable("attention_b", [units], dtype, initializer=zeros)
        vector = gain * vector * tf.math.rsqrt(tf.reduce_sum(tf.square(vector)))
    return tf.reduce_sum(vector * tf.tanh(hidden), 2)


def _linear_layer(units: int, name: str, dtype: Any) -> Dense:
    """Makes a layer of a mechanism, without bias."""
    return Dense(units, name=name, use_bias=False, dtype=dtype)


def _of_score(
    function: Callable[[Tensor], Tensor] | None,
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda score, _: (function or tf.nn.softmax)(score)


def hardmax(logits: Tensor, name: str | None = None) -> Tensor:
    """Returns 1 at the largest entry of each row of [batch, classes], and 0 elsewhere."""
    with v1.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=logits.dtype)


def _masked(memory: Any, lengths: Any) -> tuple[Tensor, Any]:
    """Sets a memory to 0 after the end of each sequence, whose length must be positive."""
    memory = tf.convert_to_tensor(memory)
    if lengths is None:
        return memory, None
    lengths = tf.convert_to_tensor(lengths)
    positive = v1.assert_positive(
        lengths, message="All values of memory_sequence_length must be at least 1."
    )
    with tf.control_dependencies([positive] if positive is not None else []):
        lengths = tf.identity(lengths)
    inside = tf.sequence_mask(lengths, tf.shape(memory)[1], memory.dtype)
    return memory * tf.reshape(inside, [*_two(inside), *[1] * (memory.shape.rank - 2)]), lengths


def _two(values: Tensor) -> list[Tensor]:
    return [tf.shape(values)[0], tf.shape(values)[1]]
