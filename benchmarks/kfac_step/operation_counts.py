"""Floating-point operations of a training step, read from its trace.

These are the multiplications and additions of matrix products and convolutions, whatever kernel
computes them, from the shapes of inputs and outputs. Elementwise ops are negligible beside these.
Decompositions are not counted, because their number of operations is not in the trace.
"""

import collections
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

Shapes = Mapping[tuple[str, int], Sequence[int]]
"""Shape by node name and output number."""


def executed_operations(metadata: Any) -> float:
    """Counts the multiplications and additions of a traced step.

    Its metadata is of a run with `FULL_TRACE` and `output_partition_graphs`, with functions
    inlined. Ops that wait for a dead input do not run and are not in a trace. Ops of a loop count
    as often as they ran, with the shapes of their last run.
    """
    stats = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    shapes = {
        (node.node_name, output.slot): [d.size for d in output.tensor_description.shape.dim]
        for node in stats
        for output in node.output
    }
    runs = collections.Counter(node.node_name for node in stats)
    nodes = itertools.chain.from_iterable(graph.node for graph in metadata.partition_graphs)
    return sum(runs[node.name] * _operations(node, shapes) for node in nodes if node.name in runs)


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
    """Operations of a convolution by a weight [height, width, inputs, outputs], with padding."""
    return 2.0 * math.prod(outputs) * math.prod(weight[:-1])
