"""Decoders, and the loop that runs one until all sequences have ended."""

import abc
import contextlib
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


class Decoder(abc.ABC):
    """A decoder: one step of the loop."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Tensor:
        """Number of sequences."""

    @property
    @abc.abstractmethod
    def output_size(self) -> Any:
        """Nest of the sizes of the outputs, without the batch."""

    @property
    @abc.abstractmethod
    def output_dtype(self) -> Any:
        """Nest of the types of the outputs."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Tensor, Any, Any]:
        """Returns (finished [batch], first inputs, first state)."""

    @abc.abstractmethod
    def step(
        self, time: Tensor, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Tensor]:
        """Makes a step.

        Args:
          time: Number of the step.
          inputs: Inputs of the step.
          state: State of the decoder.
          name: Name of the operations.

        Returns:
          (outputs, next state, next inputs, finished).
        """

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """Changes all outputs, [time, batch, …], and the state after the last step.

        Raises:
          NotImplementedError: The decoder changes nothing.
        """
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """True if a sequence that has finished may go on in a later step."""
        return False


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Tensor | None = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Tensor]:
    """Runs a decoder until all sequences have finished.

    Args:
      decoder: A decoder.
      output_time_major: True for outputs [time, batch, …], False for [batch, time, …].
      impute_finished: True to copy states, and give zeros as outputs, after the end of a sequence.
      maximum_iterations: Limit of the number of steps, None for none.
      parallel_iterations: Steps that may run at once.
      swap_memory: True to keep values for the gradients in the CPU's memory.
      scope: Scope of the variables, "decoder" if None.

    Returns:
      (outputs, state after the last step, lengths of the sequences).

    Raises:
      TypeError: It is no `Decoder`.
      ValueError: The limit is not a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"dynamic_decode takes a Decoder, got {type(decoder).__name__}.")
    with v1.variable_scope(scope, "decoder"):
        limit = _checked_limit(maximum_iterations)
        finished, inputs, state = decoder.initialize()
        if limit is not None:
            finished = tf.logical_or(finished, limit <= 0)
        empty = tf.nest.map_structure(_array, decoder.output_size, decoder.output_dtype)
        zeros = _zeros(decoder) if impute_finished else None
        lengths = tf.zeros_like(finished, tf.int32)

        def body(
            time: Tensor, arrays: Any, state: Any, inputs: Any, finished: Tensor, lengths: Tensor
        ) -> Any:
            outputs, next_state, next_inputs, now_finished = decoder.step(time, inputs, state)
            if not decoder.tracks_own_finished:
                now_finished = tf.logical_or(now_finished, finished)
            lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
            tf.nest.assert_same_structure(state, next_state)
            tf.nest.assert_same_structure(inputs, next_inputs)
            if impute_finished:
                outputs = _held(finished, zeros, outputs)
                next_state = _held(finished, state, next_state)
            if limit is not None:
                now_finished = tf.logical_or(now_finished, time + 1 >= limit)
            arrays = tf.nest.map_structure(lambda to, each: to.write(time, each), arrays, outputs)
            return time + 1, arrays, next_state, next_inputs, now_finished, lengths

        _, arrays, state, _, _, lengths = v1.while_loop(
            lambda *now: tf.logical_not(tf.reduce_all(now[4])),
            body,
            (tf.constant(0, tf.int32), empty, state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        outputs = tf.nest.map_structure(lambda each: each.stack(), arrays)
        with contextlib.suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(_batch_major, outputs)
    return outputs, state, lengths


def _checked_limit(limit: Any) -> Any:
    if limit is None:
        return None
    limit = tf.cast(limit, tf.int32)
    if limit.shape.rank:
        raise ValueError(f"maximum_iterations must be a scalar, got the shape {limit.shape}.")
    return limit


def _array(size: Any, dtype: Any) -> Any:
    shape = tf.TensorShape([None]).concatenate(size)
    return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=shape)


def _zeros(decoder: Decoder) -> Any:
    def zeros(size: Any, dtype: Any) -> Tensor:
        return tf.zeros([decoder.batch_size, *tf.TensorShape(size).as_list()], dtype)

    return tf.nest.map_structure(zeros, decoder.output_size, decoder.output_dtype)


def _held(finished: Tensor, earlier: Any, later: Any) -> Any:
    """Chooses the earlier value of sequences that have finished."""

    def held(one: Any, other: Any) -> Any:
        if isinstance(other, tf.TensorArray) or not other.shape.rank:
            return other
        condition = tf.reshape(finished, [-1, *[1] * (other.shape.rank - 1)])
        chosen = tf.where(condition, one, other)
        chosen.set_shape(other.shape)
        return chosen

    return tf.nest.map_structure(held, earlier, later)


def _batch_major(values: Tensor) -> Tensor:
    if values.shape.rank is None or values.shape.rank < 2:
        return values
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])
