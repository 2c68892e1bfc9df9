"""Floating-point operations of a training step: by the textbook, and as executed.

`textbook_operations` computes them from the sizes of the layers. `executed_operations` reads them
from the trace of a step: it counts the multiplications and additions of matrix products and
convolutions, whatever kernel computes them, from the shapes of inputs and outputs. Elementwise ops
are negligible beside these. Decompositions are not counted, because their number of operations is
not in the trace.
"""

import collections
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Shapes = Mapping[tuple[str, int], Sequence[int]]
"""Shape by node name and output number."""


class LayerSize(NamedTuple):
    """Sizes that determine the cost of a layer.

    Attributes:
      inputs: Rows of A, including the bias.
      outputs: Rows of G.
      locations: Number of times the layer is applied to an example.
      is_first: True if no gradient flows back through the layer.
    """

    inputs: int
    outputs: int
    locations: int = 1
    is_first: bool = False


def textbook_operations(
    sizes: Sequence[LayerSize], batch_size: int, invert_every: int
) -> dict[str, float]:
    """Counts the multiplications and additions of a K-FAC step, by purpose.

    Assumes full products for symmetric matrices, n³ operations per inverse, a separate backward
    pass for sampled targets, and multiplication of every gradient by both inverses.
    """
    counts: dict[str, float] = collections.defaultdict(float)
    for m, n, locations, is_first in sizes:
        rows = batch_size * locations
        counts["forward"] += 2 * rows * m * n
        counts["backward"] += 2 * rows * m * n * (1 if is_first else 2)
        counts["second backward"] += 0 if is_first else 2 * rows * m * n
        counts["covariances"] += 2 * rows * (m * m + n * n)
        counts["preconditioning"] += 2 * m * n * (m + n)
        counts["inverses"] += (m**3 + n**3) / invert_every
    return dict(counts)


def momentum_operations(counts: dict[str, float]) -> float:
    """Returns the part of `textbook_operations` that momentum SGD needs: forward and backward."""
    return counts["forward"] + counts["backward"]


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
