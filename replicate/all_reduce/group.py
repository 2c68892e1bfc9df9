"""WorkerGroup: workers of equal rank, and the collective operations between them.

Owns the calls of TensorFlow's collectives. Every worker builds the same graph, so the n-th
collective of one worker is the n-th of all others: its key is that number. Collectives with
different keys run in any order, side by side.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor
from replicate.all_reduce.settings import AllReduce

v1 = tf.compat.v1

_SENT = (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
"""Types that TensorFlow's collectives send."""

_SENT_AS = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.bfloat16: tf.float32,
    tf.uint32: tf.int64,
}
"""Wider types in which values of other types are sent, without loss."""


_NO_TIMEOUT = 0
"""Time limit of a collective: none. For a limit, TensorFlow starts a thread in each execution that
sleeps until it is over: thousands in ten minutes. The watchdog of the training loop has a limit."""


NO_ROW = -1
"""Index of a row that only makes the rows of all workers equal in number."""

_SIZES = 1024
"""Number of size classes, each of which needs a key."""


class _SizeClass(NamedTuple):
    """Number of rows that all workers send.

    Attributes:
      rows: The rows, an int32 scalar.
      number: Number of the class, ≥ 0 and below `_SIZES`, an int32 scalar.
    """

    rows: Tensor
    number: Tensor


@final
class WorkerGroup:
    """Workers that reduce together, as one of them sees the group while it builds a graph.

    Attributes:
      names: Names of the workers with their addresses, by rank; the chief has rank 0.
      rank: Number of this worker.
      settings: Settings of the reductions.
    """

    def __init__(
        self, names: Sequence[str], rank: int, settings: AllReduce, first_key: int = 0
    ) -> None:
        """Makes the group for one graph.

        Args:
          names: As the attribute.
          rank: As the attribute.
          settings: As the attribute.
          first_key: Number of the first collective. Graphs that use the same servers must not have
            numbers in common.
        """
        self.names = tuple(names)
        self.rank = rank
        self.settings = settings
        self._keys = first_key
        self._records: list[str] = []
        self._bytes = 0.0

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self.names)

    @property
    def is_chief(self) -> bool:
        """True for the worker whose values the others take over."""
        return self.rank == 0

    @property
    def records(self) -> tuple[str, ...]:
        """A line for each collective so far, which must be the same in all workers."""
        return tuple(self._records)

    @property
    def bytes_sent(self) -> int:
        """Bytes that a worker sends, on average, if each collective of known size runs once."""
        return round(self._bytes)

    def sum(self, tensor: Tensor, name: str = "sum") -> Tensor:
        """Returns the sum of a tensor over all workers, the same to the bit on each.

        Args:
          tensor: A number type; its shape is known and the same on all workers.
          name: Name of the operation.
        """
        return self._reduced(tensor, "Add", name)

    def largest(self, tensor: Tensor, name: str = "largest") -> Tensor:
        """Returns the elementwise maximum of a tensor over all workers.

        Args:
          tensor: As for `sum`.
          name: Name of the operation.
        """
        return self._reduced(tensor, "Max", name)

    def of_each(self, tensor: Tensor, name: str = "of_each") -> Tensor:
        """Returns the tensors of all workers by rank: [workers, ...].

        Args:
          tensor: As for `sum`.
          name: Name of the operation.
        """
        with v1.name_scope(name), v1.device(CPU):
            own = [tf.zeros_like(tensor)] * self.size
            own[self.rank] = tensor
            return self.sum(tf.stack(own))

    def concatenated(
        self, tensors: Sequence[Tensor], padding: Sequence[float], name: str = "concatenated"
    ) -> list[Tensor]:
        """Returns the rows of all workers, and rows of padding, in the same order on each worker.

        The number of rows may differ between workers and steps.

        Args:
          tensors: Rows of number types, each [rows, ...], with the same number of rows.
          padding: Value of the elements of added rows, for each tensor.
          name: Name of the operations.
        """
        with v1.name_scope(name), v1.device(CPU):
            rows = tf.shape(tensors[0])[0]
            size = _size_class(self.largest(rows))
            return [
                self._concatenated(tensor, size.rows - rows, value, size.number)
                for tensor, value in zip(tensors, padding, strict=True)
            ]

    def all_slices(self, slices: tf.IndexedSlices) -> tf.IndexedSlices:
        """Returns the rows of all workers, but for those whose index is `NO_ROW`.

        Args:
          slices: Rows of this worker.
        """
        given = [slices.indices, slices.values]
        indices, values = self.concatenated(given, [NO_ROW, 0])
        with v1.device(CPU):
            is_row = indices >= 0
            return tf.IndexedSlices(
                tf.boolean_mask(values, is_row),
                tf.boolean_mask(indices, is_row),
                slices.dense_shape,
            )

    def _concatenated(
        self, tensor: Tensor, missing: Tensor, value: float, number: Tensor
    ) -> Tensor:
        """Concatenates rows after some were added to them.

        Args:
          tensor: Rows of this worker.
          missing: Number of rows to add, so that all workers have as many.
          value: Value of their elements.
          number: Number of the size class. TensorFlow remembers the shape of a collective by its
            key, so that each size has a key of its own.
        """
        sent, back = _to_send(tensor)
        key = self._next_key(f"gather {tensor.dtype.name} {tensor.shape[1:]}", _SIZES)
        paddings = [[0, missing], *[[0, 0]] * (sent.shape.rank - 1)]
        sent = tf.pad(sent, paddings, constant_values=tf.cast(value, sent.dtype))
        gathered = self._gathered(sent, key + number)
        gathered.set_shape([None, *tensor.shape[1:]])
        return back(gathered)

    def _gathered(self, sent: Tensor, key: Tensor | int) -> Tensor:
        return tf.raw_ops.CollectiveGatherV2(input=sent, ordering_token=[], **self._arguments(key))

    def exchanged(self, tensor: Tensor, name: str = "exchanged") -> Tensor:
        """Sends each worker a row, and returns the rows that this worker got, by rank.

        Args:
          tensor: Rows for each worker, by rank: int32 [workers, ...], its shape known.
          name: Name of the operation.
        """
        key = self._next_key(f"exchange {tensor.dtype.name} {tensor.shape}")
        self._count(tensor, 1 / self.size)
        with v1.name_scope(name), v1.device(CPU):
            received = tf.raw_ops.CollectiveAllToAllV2(
                input=tensor, ordering_token=[], **self._arguments(key)
            )
            received.set_shape(tensor.shape)
            return received

    def gathered(self, tensor: Tensor, name: str = "gathered") -> Tensor:
        """Returns the rows of all workers, by rank: [workers × rows, ...].

        Args:
          tensor: Rows of this worker, int32 [rows, ...], in a known shape that all workers have.
          name: Name of the operation.
        """
        key = self._next_key(f"gather all {tensor.dtype.name} {tensor.shape}")
        self._count(tensor, 1)
        with v1.name_scope(name), v1.device(CPU):
            gathered = self._gathered(tensor, key)
            gathered.set_shape([self.size * tensor.shape[0], *tensor.shape[1:]])
            return gathered

    def broadcast(self, tensor: Tensor, name: str = "broadcast") -> Tensor:
        """Returns the chief's value of a tensor.

        Args:
          tensor: The chief's value; in other workers, any tensor of the same type and shape, which
            is not evaluated.
          name: Name of the operation.
        """
        sent, back = _to_send(tensor)
        shape = sent.shape.as_list()
        key = self._next_key(f"broadcast {tensor.dtype.name} {shape}")
        arguments = {"shape": shape, **self._arguments(key)}
        self._count(sent, 1 / self.size)
        with v1.name_scope(name), v1.device(CPU):
            if self.is_chief:
                return back(tf.raw_ops.CollectiveBcastSend(input=sent, **arguments))
            return back(tf.raw_ops.CollectiveBcastRecv(T=sent.dtype, **arguments))

    def _reduced(self, tensor: Tensor, how: str, name: str) -> Tensor:
        communication = self.settings.communication
        stays = communication != "ring" and "GPU" in tensor.device.upper()
        device = tensor.device if stays else CPU
        sent, back = _to_send(tensor)
        key = self._next_key(f"{how} {tensor.dtype.name} {tensor.shape}")
        self._count(sent, 2 / self.size)
        with v1.name_scope(name), v1.device(device):
            reduced = tf.raw_ops.CollectiveReduce(
                input=sent,
                merge_op=how,
                final_op="Id",
                subdiv_offsets=[0],
                **self._arguments(key, device, communication if stays else "ring"),
            )
            return back(reduced)

    def _arguments(
        self, key: Tensor | int, device: str = CPU, communication: str = "ring"
    ) -> dict[str, Any]:
        """Returns the arguments that all collectives have."""
        return {
            "group_size": self.size,
            "group_key": _group_key(device),
            "instance_key": key,
            "communication_hint": communication,
            "timeout_seconds": _NO_TIMEOUT,
        }

    def _count(self, sent: Tensor, times: float) -> None:
        """Counts a tensor of which each worker sends `times` to each other one."""
        elements = sent.shape.num_elements() or 0
        self._bytes += times * (self.size - 1) * elements * sent.dtype.size

    def _next_key(self, record: str, count: int = 1) -> int:
        """Returns the first of a number of keys that no other collective has."""
        first = self._keys + 1
        self._keys += count
        self._records.append(record)
        return first


def can_be_sent(dtype: tf.DType) -> bool:
    """Returns True if values of a type can be sent to other workers."""
    return dtype in _SENT or dtype in _SENT_AS or dtype.is_complex


def _to_send(tensor: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Returns a tensor in a type that collectives take, and the way back."""
    dtype = tensor.dtype.base_dtype
    if dtype in _SENT:
        return tensor, lambda received: received
    if dtype.is_complex:
        parts = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)
        return parts, lambda received: tf.complex(received[..., 0], received[..., 1])
    if dtype not in _SENT_AS:
        raise TypeError(
            f"AllReduce cannot send {tensor.name!r} between workers: its type is {dtype.name}. "
            f"Accepted are {[each.name for each in (*_SENT, *_SENT_AS)]} and complex types."
        )
    return tf.cast(tensor, _SENT_AS[dtype]), lambda received: tf.cast(received, dtype)


def _size_class(rows: Tensor) -> _SizeClass:
    """Returns the smallest size that has a class and is at least `rows`.

    From 8 on, there are 8 sizes between a power of two and the next: at most an eighth is padding.
    """
    powers = tf.constant([2**power for power in range(1, 31)], rows.dtype)
    octave = tf.reduce_sum(tf.cast(rows >= powers, rows.dtype))
    unit = tf.bitwise.left_shift(tf.ones_like(rows), tf.maximum(octave - 3, 0))
    units = tf.maximum((rows + unit - 1) // unit, 1)
    return _SizeClass(unit * units, 16 * octave + units)


def _group_key(device: str) -> int:
    """Returns the key of a group with one device of each worker: 1 for the CPU, 2 + i for GPU i."""
    spec = tf.DeviceSpec.from_string(device)
    return 1 if spec.device_type in (None, "CPU") else 2 + (spec.device_index or 0)
