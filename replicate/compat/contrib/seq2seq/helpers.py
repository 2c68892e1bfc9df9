"""Helpers: the inputs of a decoder's steps, and the ids that it takes from its outputs."""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


class Helper(abc.ABC):
    """Samples ids from outputs, and gives the inputs of the next step."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Tensor:
        """Number of sequences."""

    @property
    @abc.abstractmethod
    def sample_ids_shape(self) -> Any:
        """Shape of the ids of one sequence, []."""

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self) -> Any:
        """Type of the ids."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""

    @abc.abstractmethod
    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Returns the ids of a step's outputs."""

    @abc.abstractmethod
    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""


class CustomHelper(Helper):
    """A helper made of three functions."""

    def __init__(
        self,
        initialize_fn: Callable[[], tuple[Tensor, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., tuple[Tensor, Any, Any]],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        """Keeps the functions.

        Args:
          initialize_fn: Returns (finished, first inputs).
          sample_fn: Function of time=, outputs= and state= that returns ids.
          next_inputs_fn: Function of time=, outputs=, state= and sample_ids= that returns
            (finished, next inputs, next state).
          sample_ids_shape: Shape of the ids of one sequence, [] if None.
          sample_ids_dtype: Type of the ids, int32 if None.
        """
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._shape = tf.TensorShape(sample_ids_shape or [])
        self._dtype = tf.as_dtype(sample_ids_dtype or tf.int32)
        self._batch_size: Any = None

    @property
    def batch_size(self) -> Tensor:
        """Number of sequences.

        Raises:
          ValueError: `initialize` has not been called.
        """
        if self._batch_size is None:
            raise ValueError("CustomHelper knows its batch_size after initialize() was called.")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        """Shape of the ids of one sequence."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """Type of the ids."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""
        finished, inputs = self._initialize_fn()
        if self._batch_size is None:
            self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Returns the ids of a step's outputs."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class _IdHelper(Helper):
    """A helper whose ids are int32 scalars."""

    _batch_size: Any

    @property
    def batch_size(self) -> Tensor:
        """Number of sequences."""
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        """Shape of the ids of one sequence, []."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """Type of the ids, int32."""
        return tf.int32


class TrainingHelper(_IdHelper):
    """Gives the inputs of a batch, as in training."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Tensor,
        time_major: bool = False,
        name: str | None = None,
    ) -> None:
        """Keeps the inputs.

        Args:
          inputs: A nest of tensors [batch, time, …].
          sequence_length: Lengths, [batch].
          time_major: True for inputs [time, batch, …].
          name: Name of the operations.

        Raises:
          ValueError: The lengths are not a vector.
        """
        with v1.name_scope(name, "TrainingHelper", [sequence_length, *tf.nest.flatten(inputs)]):
            inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            self._inputs = inputs
            steps = inputs if time_major else tf.nest.map_structure(_time_major, inputs)
            self._arrays = tf.nest.map_structure(_unstacked, steps)
            self._zeros = tf.nest.map_structure(lambda each: tf.zeros_like(each[0]), steps)
            self._lengths = _vector("sequence_length", sequence_length)
            self._batch_size = tf.size(self._lengths)

    @property
    def inputs(self) -> Any:
        """Inputs of the batch."""
        return self._inputs

    @property
    def sequence_length(self) -> Tensor:
        """Lengths, [batch]."""
        return self._lengths

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""
        with v1.name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self._lengths)
            return finished, self._at(0, finished)

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        """Returns the ids of the largest outputs, int32."""
        with v1.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return tf.argmax(outputs, -1, tf.int32)

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        with v1.name_scope(name, "TrainingHelperNextInputs", [time, outputs]):
            finished = time + 1 >= self._lengths
            return finished, self._at(time + 1, finished), state

    def _at(self, time: Any, finished: Tensor) -> Any:
        return tf.cond(
            tf.reduce_all(finished),
            lambda: self._zeros,
            lambda: tf.nest.map_structure(lambda each: each.read(time), self._arrays),
        )


class GreedyEmbeddingHelper(_IdHelper):
    """Gives the embedding of the id of the largest output as the next input."""

    def __init__(self, embedding: Any, start_tokens: Tensor, end_token: Tensor) -> None:
        """Keeps the embedding.

        Args:
          embedding: A function of ids, or the params of `tf.nn.embedding_lookup`.
          start_tokens: First id of each sequence, [batch].
          end_token: Id that ends a sequence.

        Raises:
          ValueError: start_tokens is not a vector, or end_token not a scalar.
        """
        self._embed = embedding_fn(embedding)
        self._start_tokens = _vector("start_tokens", start_tokens)
        self._end_token = _scalar("end_token", end_token)
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embed(self._start_tokens)

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""
        return tf.zeros([self._batch_size], tf.bool), self._start_inputs

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        """Returns the ids of the largest outputs, int32.

        Raises:
          TypeError: The outputs are not one tensor.
        """
        return tf.argmax(_one_tensor(type(self).__name__, outputs), -1, tf.int32)

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(
            tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embed(sample_ids)
        )
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Gives the embedding of an id that is drawn by its logit as the next input."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Tensor,
        end_token: Tensor,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        """Keeps the embedding; ids and embedding are as for `GreedyEmbeddingHelper`.

        `softmax_temperature` divides the logits, None for 1. `seed` is that of the draws.

        Raises:
          ValueError: start_tokens is not a vector, or end_token not a scalar.
        """
        super().__init__(embedding, start_tokens, end_token)
        self._temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Tensor:
        """Returns drawn ids, int32.

        Raises:
          TypeError: The outputs are not one tensor.
        """
        logits = _one_tensor("SampleEmbeddingHelper", outputs)
        if self._temperature is not None:
            logits /= tf.cast(self._temperature, logits.dtype)
        return drawn(logits, self._seed)


class InferenceHelper(Helper):
    """Gives samples, or a function of them, as the next inputs."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Tensor,
        end_fn: Callable[[Any], Tensor],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        """Keeps the functions.

        Args:
          sample_fn: Function of the outputs that returns samples.
          sample_shape: Shape of a sample of one sequence.
          sample_dtype: Type of the samples.
          start_inputs: First inputs, [batch, …].
          end_fn: Function of the samples that returns finished, [batch].
          next_inputs_fn: Function of the samples that returns the next inputs, the samples
            themselves if None.
        """
        self._sample_fn = sample_fn
        self._shape = tf.TensorShape(sample_shape)
        self._dtype = sample_dtype
        self._start_inputs = tf.convert_to_tensor(start_inputs)
        self._end_fn = end_fn
        self._next_inputs_fn = next_inputs_fn
        self._batch_size = tf.shape(self._start_inputs)[0]

    @property
    def batch_size(self) -> Tensor:
        """Number of sequences."""
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        """Shape of a sample of one sequence."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """Type of the samples."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        """Returns (finished [batch], first inputs)."""
        return tf.zeros([self._batch_size], tf.bool), self._start_inputs

    def sample(self, time: Tensor, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Returns the samples of a step's outputs."""
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Tensor, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], next inputs, next state)."""
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state


def embedding_fn(embedding: Any) -> Callable[[Tensor], Tensor]:
    """Returns a function of ids: the given one, or one that looks up `tf.nn.embedding_lookup`."""
    if callable(embedding):
        return embedding
    return lambda ids: tf.nn.embedding_lookup(embedding, ids)


def drawn(logits: Tensor, seed: int | None) -> Tensor:
    """Draws an id from each row of logits, int32 [batch]."""
    return tf.squeeze(tf.random.categorical(logits, 1, tf.int32, seed), 1)


def _one_tensor(helper: str, outputs: Any) -> Tensor:
    if not tf.is_tensor(outputs):
        raise TypeError(f"{helper} takes outputs that are one tensor, got {outputs!r}.")
    return outputs


def _vector(name: str, value: Any) -> Tensor:
    value = tf.cast(value, tf.int32)
    if value.shape.rank not in (None, 1):
        raise ValueError(f"{name} must be a vector, got the shape {value.shape}.")
    return value


def _scalar(name: str, value: Any) -> Tensor:
    value = tf.cast(value, tf.int32)
    if value.shape.rank:
        raise ValueError(f"{name} must be a scalar, got the shape {value.shape}.")
    return value


def _time_major(values: Tensor) -> Tensor:
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])


def _unstacked(values: Tensor) -> Any:
    array = tf.TensorArray(values.dtype, tf.shape(values)[0], element_shape=values.shape[1:])
    return array.unstack(values)
