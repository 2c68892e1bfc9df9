"""Helpers of scheduled sampling: now and then a step sees its own last output.

Bengio, Vinyals, Jaitly and Shazeer, "Scheduled Sampling" (2015), section 2.4.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.contrib.seq2seq.helpers import TrainingHelper, drawn, embedding_fn

_NONE = -1


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Gives at random the embedding of a drawn id in place of an input."""

    def __init__(
        self,
        inputs: Tensor,
        sequence_length: Tensor,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        """Keeps the inputs.

        Args:
          inputs: [batch, time, …].
          sequence_length: Lengths, [batch].
          embedding: A function of ids, or the params of `tf.nn.embedding_lookup`.
          sampling_probability: Probability of a drawn id, a scalar or [batch].
          time_major: True for inputs [time, batch, …].
          seed: Seed of the ids.
          scheduling_seed: Seed of the choices.
          name: Name of the operations.
        """
        super().__init__(inputs, sequence_length, time_major, name)
        self._embed = embedding_fn(embedding)
        self._probability = tf.convert_to_tensor(sampling_probability)
        self._seeds = seed, scheduling_seed

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        """Returns drawn ids, and −1 where the input is used."""
        chosen = _chosen(self._probability, self.batch_size, self._seeds[1])
        ids = drawn(outputs, self._seeds[0])
        return tf.where(chosen, ids, tf.fill(tf.shape(ids), _NONE))

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)
        embedded = self._embed(tf.maximum(sample_ids, 0))
        return finished, _rows(sample_ids > _NONE, embedded, inputs), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Gives at random the last output in place of an input."""

    def __init__(
        self,
        inputs: Tensor,
        sequence_length: Tensor,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Tensor], Tensor] | None = None,
        auxiliary_inputs: Tensor | None = None,
        name: str | None = None,
    ) -> None:
        """Keeps the inputs.

        Args:
          inputs: [batch, time, size].
          sequence_length: Lengths, [batch].
          sampling_probability: Probability of an output, a scalar or [batch].
          time_major: True for inputs [time, batch, size].
          seed: Seed of the choices.
          next_inputs_fn: Function of the outputs that gives inputs, the outputs if None.
          auxiliary_inputs: Further inputs of each time, [batch, time, size], beside either.
          name: Name of the operations.
        """
        super().__init__(inputs, sequence_length, time_major, name)
        self._further = None
        if auxiliary_inputs is not None:
            self._further = TrainingHelper(auxiliary_inputs, sequence_length, time_major)
        self._probability = tf.convert_to_tensor(sampling_probability)
        self._seed = seed
        self._next_inputs_fn = next_inputs_fn

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""
        finished, inputs = super().initialize()
        if self._further is not None:
            inputs = tf.concat([inputs, self._further.initialize()[1]], -1)
        return finished, inputs

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        """Returns 1 where the output is used, else 0."""
        return tf.cast(_chosen(self._probability, self.batch_size, self._seed), tf.int32)

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)
        own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
        inputs = _rows(sample_ids > 0, own, inputs)
        if self._further is not None:
            further = self._further.next_inputs(time, outputs, state, sample_ids)[1]
            inputs = tf.concat([inputs, further], -1)
        return finished, inputs, state


def _chosen(probability: Tensor, batch: Tensor, seed: int | None) -> Tensor:
    return tf.random.uniform([batch], dtype=probability.dtype, seed=seed) < probability


def _rows(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    chosen = tf.where(tf.reshape(condition, [-1, *[1] * (other.shape.rank - 1)]), one, other)
    chosen.set_shape(other.shape)
    return chosen
