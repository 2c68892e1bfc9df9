"""Finds gradients of dense layers in the graph that are products XᵀD of few rows.

The gradient of a dense layer's weight is XᵀD, of its inputs X and the gradients D of its outputs,
one row for each example. If a batch has fewer rows than the layer is wide, multiplying X and D by
the inverses is cheaper than multiplying their product. The user declares nothing: the graph shows
how a gradient is computed. Called by the Kronecker blocks.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §4.2: the product with both inverses.
"""

from typing import NamedTuple

import tensorflow as tf

from kfac._types import Operation, Parameters, Tensor
from kfac.linalg.tensor_ops import append_homogeneous

v1 = tf.compat.v1

_PASS_ON = ("EnsureShape", "Identity")


class RowProduct(NamedTuple):
    """A matrix V = XᵀD of X [r, m] and D [r, n]."""

    x: Tensor
    d: Tensor


class _Source(NamedTuple):
    """The op that computed a value, and ops that must run before the value is read."""

    op: Operation
    waits_for: list[Operation]


def cheaper_row_product(gradient: Parameters) -> RowProduct | None:
    """Returns X and D of a gradient V = XᵀD if A V G is cheaper as (A Xᵀ)(D G), else None.

    For A [m, m], G [n, n] and r rows this is the case if r(m² + n² + mn) < mn(m + n). V [m, n] is a
    Tensor, or a tuple of all its rows but the last [m − 1, n] and the last [n], which belongs to a
    bias. Returns None also if V is no such product, or if r is not static.
    """
    weight, *bias = (_source(t) for t in tf.nest.flatten(gradient))
    op = weight.op
    if op.type != "MatMul" or not op.get_attr("transpose_a") or op.get_attr("transpose_b"):
        return None
    x, d = op.inputs
    if bias and not _is_sum_of_rows(bias[0].op, d):
        return None
    (r, m), (_, n) = (rows.shape.with_rank(2).as_list() for rows in (x, d))
    if None in (r, m, n):
        return None
    m += len(bias)
    if r * (m * m + n * n + m * n) >= m * n * (m + n):
        return None
    waits_for = [op for source in (weight, *bias) for op in source.waits_for]
    with v1.control_dependencies(waits_for):
        return RowProduct(append_homogeneous(x) if bias else tf.identity(x), tf.identity(d))


def _source(tensor: Tensor) -> _Source:
    """Returns the op that computed a value, behind ops that only pass it on."""
    op, waits_for = tensor.op, []
    while op.type in _PASS_ON:
        waits_for += op.control_inputs
        op = op.inputs[0].op
    return _Source(op, waits_for)


def _is_sum_of_rows(op: Operation, rows: Tensor) -> bool:
    """Returns True if an op sums all rows [r, n]; the sum [n] may have another shape."""
    if op.type == "Reshape":  # Part of the gradient of a broadcast.
        op = _source(op.inputs[0]).op
    sums = op.type == "BiasAddGrad" or (op.type == "Sum" and _adds_rows(op))
    return sums and op.inputs[0].name == rows.name


def _adds_rows(op: Operation) -> bool:
    axes = tf.get_static_value(op.inputs[1])
    return axes is not None and axes.ravel().tolist() == [0]
