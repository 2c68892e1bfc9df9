"""Buffers and seeds of tf.data pipelines, as far as the graph shows them.

Owns the look at a pipeline before it runs: whether its iterator will hold much data, and which
random operations have no seed. `input_position.py` decides by it how a position is saved.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.estimator.pipeline_record import named_inputs, small_constant

v1 = tf.compat.v1


def large_buffer(ops: Iterable[Operation], limit: int) -> str | None:
    """Returns the type of an operation that will hold much data, None if none is known to.

    A cache in memory counts as large: its size shows only after the first epoch.

    Args:
      ops: Of the pipeline.
      limit: The number of bytes above which a buffer is large.
    """
    for op in ops:
        inputs = named_inputs(op)
        if op.type.startswith("CacheDataset") and "filename" in inputs:
            filename = small_constant(inputs["filename"])
            if filename is not None and not filename.item():
                return str(op.type)
        elif "buffer_size" in inputs and "input_dataset" in inputs:
            count = small_constant(inputs["buffer_size"])
            if count is not None and count * _element_bytes(op) > limit:
                return str(op.type)
    return None


def unseeded_inputs(ops: Iterable[Operation]) -> list[tuple[Tensor, Tensor]]:
    """Returns the seed and seed2 of every operation that draws other numbers in each run."""
    pairs = []
    for op in ops:
        inputs = named_inputs(op)
        pair = inputs.get("seed"), inputs.get("seed2")
        if all(tensor is not None and _is_zero(small_constant(tensor)) for tensor in pair):
            pairs.append(pair)
    return pairs


def has_unseeded_function(ops: Iterable[Operation]) -> bool:
    """Returns whether a function of the pipeline makes a dataset with a random order of its own.

    Such a function has constants for the seeds, both 0, under the names that tf.data gives them.
    """
    calls = any(value.HasField("func") for op in ops for value in op.node_def.attr.values())
    if not calls:
        return False
    return any(
        _has_unseeded_node(function.node_def)
        for function in v1.get_default_graph().as_graph_def().library.function
    )


def _has_unseeded_node(nodes: Sequence[tf.compat.v1.NodeDef]) -> bool:
    zeros = {
        node.name
        for node in nodes
        if node.op == "Const" and node.name.startswith("seed") and _is_zero_proto(node)
    }
    return any(
        sum(source.partition(":")[0] in zeros for source in node.input) > 1 for node in nodes
    )


def _is_zero_proto(node: tf.compat.v1.NodeDef) -> bool:
    tensor = node.attr["value"].tensor
    return not tensor.tensor_shape.dim and _is_zero(tf.make_ndarray(tensor))


def _is_zero(value: np.ndarray | None) -> bool:
    return value is not None and value.size == 1 and value.item() == 0


def _element_bytes(op: Operation) -> float:
    """Bytes of an element of a dataset as far as they are known, 0 if they are not."""
    try:
        shapes, types = op.get_attr("output_shapes"), op.get_attr("output_types")
    except ValueError:
        return 0
    sizes = [
        (tf.TensorShape(shape).num_elements() or 0) * dtype.size
        for shape, dtype in zip(shapes, types, strict=True)
    ]
    return math.fsum(sizes)
