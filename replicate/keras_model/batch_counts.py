"""Numbers that the means of losses divide by, of the batches of all towers.

A mask is a function of the batch. So the model is made once more, in a graph of its own, and only
the operations between the batch and the numbers are copied, once for the batch of each tower. The
first tower has the numbers before the others are built.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
from absl import logging

from replicate._types import Nest, Operation, Tensor
from replicate.estimator.keras_names import build_with_new_names
from replicate.graph_ops.state import VARIABLES, ancestors

v1 = tf.compat.v1
log = logging.get_absl_logger()

Counts: TypeAlias = Mapping[str, Tensor]
"""Number by output, a scalar of float32."""


class Batch(NamedTuple):
    """Features and labels of one tower."""

    features: Nest
    labels: Nest


def counts_of_batches(count: Callable[[Batch], Counts], batches: Sequence[Batch]) -> Counts | None:
    """Returns the sums over all batches of numbers that a model makes of each.

    Args:
      count: Makes a model in the default graph, and returns its numbers for a batch.
      batches: Those of all towers, in the default graph, alike but for the number of rows.

    Returns:
      The sums. None if a number depends on variables of the model.
    """
    with tf.Graph().as_default() as graph:
        batch = tf.nest.map_structure(_placeholder, batches[0], expand_composites=True)
        counts = build_with_new_names(lambda: count(batch))
        needed = ancestors([count.op for count in counts.values()])
    if any(operation.type in VARIABLES for operation in needed):
        log.warning(
            "The masks of the Keras model depend on its variables: each tower's loss counts by its "
            "rows, and not by its valid steps."
        )
        return None
    copied = _selected(graph, needed)
    names = [count.name for count in counts.values()]
    counted: list[Sequence[Tensor]] = []
    for each in batches:
        given = _fed(batch, each, {operation.name for operation in needed})
        counted.append(tf.import_graph_def(copied, given, names, name="valid_steps"))
    sums = (tf.add_n(list(parts)) for parts in zip(*counted, strict=True))
    return dict(zip(counts, sums, strict=True))


def _placeholder(value: Any) -> Any:
    if value is None:
        return None
    value = tf.convert_to_tensor(value)
    shape = value.shape
    return v1.placeholder(value.dtype, [None, *shape[1:]] if shape.rank else shape)


def _selected(graph: tf.Graph, operations: Iterable[Operation]) -> Any:
    definition = graph.as_graph_def()
    names = {operation.name for operation in operations}
    nodes = [node for node in definition.node if node.name in names]
    del definition.node[:]
    definition.node.extend(nodes)
    return definition


def _fed(placeholders: Batch, batch: Batch, names: set[str]) -> dict[str, Any]:
    """Returns the tensors of a batch by the names of the placeholders in their place."""
    flat = zip(
        tf.nest.flatten(placeholders, expand_composites=True),
        tf.nest.flatten(batch, expand_composites=True),
        strict=True,
    )
    return {
        placeholder.name: tf.convert_to_tensor(value)
        for placeholder, value in flat
        if placeholder is not None and placeholder.op.name in names
    }
