"""Sums over processes in the graph of a training function, and between the steps of Keras' loop."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.packs import sent_in_packs
from replicate.keras.process import Process

v1 = tf.compat.v1


@final
class StepSums:
    """Sums in one training step; all batches weigh the same.

    It has what K-FAC asks of `replicate.protocols.Workers`.
    """

    def __init__(self, group: WorkerGroup) -> None:
        """Adds nothing to the graph yet."""
        self._group = group

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._group.size

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self._group.rank

    def share(self, averages: bool) -> Tensor:
        """Returns the factor of this process's losses in their sum, float64 [].

        Args:
          averages: True if losses are means over rows.
        """
        return tf.constant(1 / self.size if averages else 1, tf.float64)

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns sums over all processes, the same to the bit on each."""
        return sent_in_packs(tensors, self._group.settings.pack_bytes, self._group.sum)

    def gathered(self, slices: tf.IndexedSlices) -> tf.IndexedSlices:
        """Returns the rows of all processes, as one process has those of all batches."""
        return self._group.all_slices(slices)

    def total(self, loss: Tensor, averages: bool) -> Tensor:
        """Returns the loss of the batches of all processes, []."""
        weighted = tf.reshape(loss, []) * tf.cast(self.share(averages), loss.dtype)
        return tf.reduce_sum(self._group.of_each(weighted))

    def agreed(self, flags: Tensor) -> Tensor:
        """Returns which of the booleans [flags] are True on all processes."""
        with v1.device(CPU):
            refused = tf.cast(tf.logical_not(flags), tf.int32)
            return tf.equal(self._group.largest(refused), 0)


@final
class Exchange:
    """Sums between steps. All processes make the same calls in the same order."""

    def __init__(self, process: Process) -> None:
        """Traces nothing yet."""
        self._process = process
        self._sums: dict[tuple[Any, ...], Callable[..., list[Tensor]]] = {}

    def of_each(self, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
        """Returns a row of numbers of each process, by rank: float64 [n, numbers]."""
        rows = np.zeros([self._process.size, len(numbers)])
        rows[self._process.rank] = numbers
        return np.asarray(self.sum([rows])[0])

    def sum(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Returns the sums of arrays, in their types, over all processes."""
        tensors = [tf.convert_to_tensor(value) for value in values]
        key = tuple((each.dtype, *each.shape) for each in tensors)
        if key not in self._sums:
            self._sums[key] = self._make_sum()
        with self._process.watch():
            return [each.numpy() for each in self._sums[key](tensors)]

    def _make_sum(self) -> Callable[..., list[Tensor]]:
        first_key = self._process.take_keys()

        def add(tensors: list[Tensor]) -> list[Tensor]:
            return StepSums(self._process.group(first_key)).sum(tensors)

        made: Callable[..., list[Tensor]] = tf.function(add, autograph=False)
        return made
