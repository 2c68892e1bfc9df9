"""Functions that XLA compiles: how K-FAC knows that it is building one.

XLA compiles a function as a whole. It has no clock, no text, and no Tensors that are dead because a
switch has not chosen them, so what K-FAC builds of these takes another form there. Called by
everything that does.
"""

import tensorflow as tf

from kfac._types import Graph, Tensor

v1 = tf.compat.v1

_MARK = "_xla_propagate_compile_time_consts"


def is_compiled() -> bool:
    """Returns True if XLA will compile the function whose graph is being built.

    That is the function of a model that was compiled with `jit_compile=True`, or of
    `tf.function(jit_compile=True)`, or a branch in it.
    """
    if tf.executing_eagerly():
        return False
    graph = v1.get_default_graph()
    if not graph.building_function:
        return False
    known = _known(graph)
    if not known:
        known.append(_has_marks(graph))
    return bool(known[0])


def as_around(compiled: bool) -> None:
    """Takes note in the graph of a branch, or of a function, that `is_compiled` is known there.

    To find it out takes some milliseconds for each graph.
    """
    known = _known(v1.get_default_graph())
    if not known:
        known.append(compiled)


def _known(graph: Graph) -> list[bool]:
    """Returns a list that is kept with a graph: what `is_compiled` has returned, if anything."""
    kept: list[bool] = graph.get_collection_ref((is_compiled, graph))
    return kept


def _has_marks(graph: Graph) -> bool:
    """Returns True if TensorFlow marks conditions of a function's graph for XLA.

    No public function tells whether XLA will compile a graph. The condition is made in a function
    of its own, so that the graph stays as it is.
    """

    def condition() -> Tensor:
        chosen = tf.zeros([], tf.bool)
        return tf.cond(chosen, lambda: tf.constant(1), lambda: tf.constant(2))

    with graph.as_default():
        probe = tf.function(condition, autograph=False).get_concrete_function()
    return any(_MARK in operation.node_def.attr for operation in probe.graph.get_operations())
