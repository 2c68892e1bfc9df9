"""Buffers and seeds of tf.data pipelines, as far as the graph shows them.

Owns the inspection of a pipeline before it runs: large buffers of its iterator, and random
operations without a seed. `input_position.py` uses it to choose the way to save a position.
"""

from collections.abc import Iterable

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.estimator.checkpoints.pipeline_record import named_inputs, small_constant

_SLOT_BYTES = 172
"""Bytes that TensorFlow writes for a place in a buffer, even for an empty one."""


def large_buffers(ops: Iterable[Operation], limit: int) -> list[Operation]:
    """Returns the operations whose buffers are known to have more than `limit` bytes.

    A cache in memory counts as large: its size shows only after the first epoch.
    """
    return [op for op in ops if _is_cache_in_memory(op) or _bytes_of_buffer(op) > limit]


def sizes_to_feed(large: Iterable[Operation]) -> list[Tensor]:
    """Returns the size Tensors of large buffers; a session can feed smaller sizes to them."""
    sizes = [named_inputs(op).get("buffer_size") for op in large]
    return [size for size in sizes if size is not None and size.graph.is_feedable(size)]


def unseeded_inputs(ops: Iterable[Operation]) -> list[tuple[Tensor, Tensor]]:
    """Returns seed and seed2 of every operation without a seed."""
    pairs = []
    for op in ops:
        inputs = named_inputs(op)
        pair = inputs.get("seed"), inputs.get("seed2")
        if all(tensor is not None and _is_zero(tensor) for tensor in pair):
            pairs.append(pair)
    return pairs


def _is_zero(tensor: Tensor) -> bool:
    value = small_constant(tensor) if tensor.graph.is_feedable(tensor) else None
    return value is not None and value.size == 1 and value.item() == 0


def _is_cache_in_memory(op: Operation) -> bool:
    filename = named_inputs(op).get("filename") if op.type.startswith("CacheDataset") else None
    name = None if filename is None else small_constant(filename)
    return name is not None and not name.item()


def _bytes_of_buffer(op: Operation) -> float:
    """Returns the bytes of the serialized buffer of a dataset, as far as they are known."""
    inputs = named_inputs(op)
    is_buffer = "buffer_size" in inputs and "input_dataset" in inputs
    count = small_constant(inputs["buffer_size"]) if is_buffer else None
    if count is None:
        return 0
    shapes, types = op.get_attr("output_shapes"), op.get_attr("output_types")
    sizes = [
        (tf.TensorShape(shape).num_elements() or 0) * dtype.size
        for shape, dtype in zip(shapes, types, strict=True)
    ]
    return float(count) * (_SLOT_BYTES + sum(sizes))
