"""Tensors that a graph has once, whatever needs them: each one is an operation."""

from collections.abc import Callable, Hashable, Sequence

import tensorflow as tf

from kfac._types import DType, Tensor

v1 = tf.compat.v1


def shared_constant(value: float, shape: Sequence[int], dtype: DType, device: str = "") -> Tensor:
    """Returns a Tensor of entries equal to `value`; outside of graphs a new one.

    It waits for nothing. It is made in no name scope, and in no branch. The device "" leaves that
    to the scopes of the first call.
    """
    key = value, tuple(shape), dtype
    return made_once(key, device, lambda: tf.constant(value, dtype, list(shape)))


def made_once(key: Hashable, device: str, make: Callable[[], Tensor]) -> Tensor:
    """Returns what a function makes, the same for equal keys and devices; outside of graphs anew.

    The Tensor depends on no other. It is made as `shared_constant` is.
    """
    if tf.executing_eagerly():
        return make()
    graph = v1.get_default_graph()
    kept = graph.get_collection_ref((made_once,))
    if not kept:
        kept.append({})
    # The graph of a function begins with the collections of the graph around it.
    place = graph, key, device
    if place not in kept[0]:
        with v1.control_dependencies(None), v1.name_scope("kfac/constant/"), v1.device(device):
            kept[0][place] = make()
    return kept[0][place]
