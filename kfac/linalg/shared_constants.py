"""Constants that a graph has once, whatever needs them: each one is an operation."""

from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Tensor

v1 = tf.compat.v1


def shared_constant(value: float, shape: Sequence[int], dtype: DType, device: str = "") -> Tensor:
    """Returns a Tensor of entries equal to `value`; outside of graphs a new one.

    It waits for nothing. It is made in no name scope, and in no branch. The device "" leaves that
    to the scopes of the first call.
    """
    if tf.executing_eagerly():
        return _made(value, shape, dtype)
    graph = v1.get_default_graph()
    kept = graph.get_collection_ref((shared_constant,))
    if not kept:
        kept.append({})
    # The graph of a function begins with the collections of the graph around it.
    key = graph, value, tuple(shape), dtype, device
    if key not in kept[0]:
        with v1.control_dependencies(None), v1.name_scope("kfac/constant/"), v1.device(device):
            kept[0][key] = _made(value, shape, dtype)
    return kept[0][key]


def _made(value: float, shape: Sequence[int], dtype: DType) -> Tensor:
    return tf.constant(value, dtype, list(shape))
