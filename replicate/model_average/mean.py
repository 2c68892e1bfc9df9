"""A mean over workers: one accumulator on a parameter server, shared by all.

Contributions carry the number of their round, and those for a round that has ended are dropped. So
a value that a worker sends too late, or sent before it died, never reaches a later round.
`rounds.py` uses one mean for each weight and another to count the workers that are present.
"""

from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

_LAST_ROUND = tf.int64.max


class WorkerMean:
    """The mean of the workers' contributions to a round."""

    def __init__(self, name: str, shape: Any, dtype: tf.DType, device: str):
        """Creates the accumulator, or finds that of another worker.

        Args:
          name: Name of the accumulator, equal in all workers.
          shape: Static shape of a contribution.
          dtype: Type of a contribution. 16-bit floats are summed as float32.
          device: Device of a parameter server.
        """
        self._dtype = dtype if dtype == tf.float64 else tf.float32
        self._shape = shape
        self._device = device
        with v1.device(device):
            self._accumulator = v1.ConditionalAccumulator(
                self._dtype, shape, name="accumulator", shared_name=name
            )

    def add(self, value: Tensor, round_number: Tensor) -> Operation:
        """Returns the operation that adds a contribution to a round."""
        value = tf.cast(value, self._dtype)
        with v1.device(self._device):
            return self._accumulator.apply_grad(value, local_step=round_number)

    def take(self, count: Tensor | int, round_number: Tensor) -> Tensor:
        """Waits for `count` contributions to a round, returns their mean, and drops later ones."""
        with v1.device(self._device):
            mean = self._accumulator.take_grad(count)
            with v1.control_dependencies([mean]):
                closed = self._accumulator.set_global_step(round_number + 1)
            with v1.control_dependencies([closed]):
                return tf.identity(mean)

    def discard(self, round_number: Tensor) -> Operation:
        """Returns the operation that drops all contributions to this round and earlier ones."""
        with v1.device(self._device):
            nothing = tf.zeros(self._shape, self._dtype)
            last = self._accumulator.apply_grad(nothing, local_step=_LAST_ROUND)
            with v1.control_dependencies([last]):
                return self.take(1, round_number).op
