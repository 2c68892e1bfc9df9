"""Recognises position embeddings: tables [T, D] whose rows are the same for every example.

    y[n] = x[n] + P          (a weight [T, D] or [1, T, D], or its first rows)
    y[n] = x[n] + P[ids]     (an embedding that is looked up once for all examples)

The table's gradient of an example is that of its rows of y, so the table is an embedding whose ids
are repeated for each example. Its Fisher block has a Kronecker product: the diagonal matrix of how
often each row is used, and the second moment of output gradients, averaged over positions. That
takes gradients at different positions as uncorrelated, which is the assumption of independent uses
of Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
networks", and has one matrix [D, D] instead of one [T·D, T·D]. Called by the table of matchers.
"""

from collections.abc import Callable

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.graph_search.bias import SAME_NUMBERS, SUMS
from kfac.graph_search.embedding import is_by_row
from kfac.graph_search.records import MatchRecord, RecordType
from kfac.graph_search.tower import Tower
from kfac.registration.subgraph import Use

v1 = tf.compat.v1

_LOOKUPS = frozenset({"Gather", "GatherV2", "ResourceGather"})
_SLICES = frozenset({"Slice", "StridedSlice"})
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_REPEATS = SUMS | {"BroadcastTo", "Tile"}
"""Types of ops that repeat a table for each example, as they broadcast it."""


def match_position(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the position embedding that a use of a table can be, or nothing."""
    if variable.shape.rank is None or variable.shape.rank < 2 or use.in_loop:
        return []
    ids = _ids_of(use)
    if ids is None:
        return []
    rows: Use | None = use
    if use.op.type in _LOOKUPS | _SLICES:
        rows = tower.only_consumer(use.op.outputs[0])
    while rows is not None and rows.op.type in SAME_NUMBERS:
        rows = tower.only_consumer(rows.op.outputs[0])
    if rows is None or not _is_repeated(tower, rows, variable):
        return []
    outputs = rows.op.outputs[0]

    def repeated() -> Tensor:
        with v1.device(outputs.device):
            rows = tf.reshape(ids(), [-1])
            return tf.reshape(tf.broadcast_to(rows, tf.shape(outputs)[:-1]), [-1])

    data = {"inputs": repeated, "outputs": outputs, "leading": outputs.shape.as_list()[:-1]}
    data |= tower.sharing_of(variable)
    return [tower.match(RecordType.embedding, variable, use, data, outputs)]


def _ids_of(use: Use) -> Callable[[], Tensor] | None:
    """Returns a function that makes the numbers of the table's rows that a use takes, or None."""
    op = use.op
    if op.type in _LOOKUPS:
        return (lambda: op.inputs[1]) if is_by_row(use) else None
    shape = use.value.shape
    if (use.position and op.type in _SLICES) or not shape.is_fully_defined():
        return None

    def numbers() -> Tensor:
        leading = shape[:-1].as_list()
        rows = tf.reshape(tf.range(shape[:-1].num_elements()), [*leading, 1])
        table = tf.broadcast_to(rows, shape)
        return _sliced(op, table)[..., 0] if op.type in _SLICES else rows

    return numbers


def _sliced(op: Operation, table: Tensor) -> Tensor:
    """Returns the part of a table that a slice takes of another one of the same shape."""
    if op.type == "Slice":
        return tf.raw_ops.Slice(input=table, begin=op.inputs[1], size=op.inputs[2])
    begin, end, strides = op.inputs[1:]
    masks = {name: op.get_attr(name) for name in _MASKS}
    return tf.raw_ops.StridedSlice(input=table, begin=begin, end=end, strides=strides, **masks)


def _is_repeated(tower: Tower, use: Use, variable: Variable) -> bool:
    """Returns True if an op has the same rows of the table for each example of its output."""
    table, outputs = use.value, use.op.outputs[0]
    if use.op.type not in _REPEATS or (use.position and use.op.type not in SUMS):
        return False
    if table.shape.rank is None or outputs.shape.rank is None:
        return False
    sizes, repeated = table.shape.as_list(), outputs.shape.as_list()
    while len(sizes) > 2 and sizes[0] == 1:
        del sizes[0]
    return (
        len(sizes) == 2
        and len(repeated) == 3
        and repeated[1:] == sizes
        and sizes[-1] == variable.shape[-1]
        and not (use.op.type in SUMS and tower.is_of_variables(outputs))
        and tower.is_by_example(outputs)
    )
