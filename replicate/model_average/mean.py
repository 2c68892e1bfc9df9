"""A mean over workers: one accumulator on a parameter server, shared by all.

Contributions carry the ticket of their round. One that comes when its round is over is dropped, so
what a worker sends too late, or sent before it died, never reaches a later round. Used for each
weight by `rounds.py`, and once more to count who is there.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

_AFTER_ALL = tf.int64.max


class WorkerMean:
    """The mean of what the workers contribute in a round."""

    def __init__(self, name: str, shape: Any, dtype: tf.DType, device: str):
        """Finds or makes it.

        Args:
          name: Equal in all workers.
          shape: Of a contribution, static.
          dtype: Of a contribution. 16-bit floats are added up as float32.
          device: Of a parameter server.
        """
        self._dtype = dtype if dtype == tf.float64 else tf.float32
        self._shape = shape
        self._device = device
        with v1.device(device):
            self._accumulator = v1.ConditionalAccumulator(
                self._dtype, shape, name="accumulator", shared_name=name
            )

    def add(self, value: Tensor, ticket: Tensor) -> Operation:
        """Returns the operation that contributes to the round with a ticket."""
        value = tf.cast(value, self._dtype)
        with v1.device(self._device):
            return self._accumulator.apply_grad(value, local_step=ticket)

    def take(self, count: Tensor | int, ticket: Tensor) -> Tensor:
        """Returns the mean once there are enough contributions; later ones to the round are late.

        Args:
          count: How many are enough, int32 []; it waits for them.
          ticket: Of the round, int64 [].
        """
        with v1.device(self._device):
            mean = self._accumulator.take_grad(count)
            with v1.control_dependencies([mean]):
                closed = self._accumulator.set_global_step(ticket + 1)
            with v1.control_dependencies([closed]):
                return tf.identity(mean)

    def discard(self, ticket: Tensor) -> Operation:
        """Returns the operation that drops what there is; only rounds after the ticket's count."""
        with v1.device(self._device):
            nothing = tf.zeros(self._shape, self._dtype)
            last = self._accumulator.apply_grad(nothing, local_step=_AFTER_ALL)
            with v1.control_dependencies([last]):
                return self.take(1, ticket).op
