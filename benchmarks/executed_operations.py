"""How many floating-point operations a step really took, from the trace of one.

Counts products and sums in products of matrices and convolutions, whatever kernels did them, from
the shapes that went in and came out. All else is small beside these, or is decompositions, of which
the trace tells the time only. Called by the programs whose steps are timed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

Shapes = Mapping[tuple[str, int], Sequence[int]]
"""Shape by name of the node and number of its output."""


def executed_operations(metadata: Any) -> float:
    """Counts the operations of a step.

    Args:
      metadata: `RunMetadata` of a step run with `FULL_TRACE` and `output_partition_graphs`.
    """
    stats = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    shapes = {
        (node.node_name, output.slot): [d.size for d in output.tensor_description.shape.dim]
        for node in stats
        for output in node.output
    }
    ran = {node.node_name for node in stats}
    nodes = itertools.chain.from_iterable(graph.node for graph in metadata.partition_graphs)
    return sum(_operations(node, shapes) for node in nodes if node.name in ran)


def _operations(node: Any, shapes: Shapes) -> float:
    kind = node.op
    if "MatMul" in kind and "Quantize" not in kind:
        left = _input_shape(node, 0, shapes)
        transposed = node.attr["transpose_a"].b or node.attr["adj_x"].b
        return 2.0 * math.prod(shapes[node.name, 0]) * left[-2 if transposed else -1]
    if "Conv2DBackpropFilter" in kind:
        return _per_output(_input_shape(node, 2, shapes), shapes[node.name, 0])
    if "Conv2DBackpropInput" in kind:
        return _per_output(_input_shape(node, 2, shapes), _input_shape(node, 1, shapes))
    if kind.endswith("Conv2D"):
        return _per_output(shapes[node.name, 0], _input_shape(node, 1, shapes))
    return 0.0


def _input_shape(node: Any, number: int, shapes: Shapes) -> Sequence[int]:
    name, _, slot = node.input[number].partition(":")
    return shapes[name, int(slot or 0)]


def _per_output(outputs: Sequence[int], weight: Sequence[int]) -> float:
    """Counts those of a convolution by a weight [h, w, channels, outputs], padding included."""
    return 2.0 * math.prod(outputs) * math.prod(weight[:-1])
