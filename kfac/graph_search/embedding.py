"""Recognises embeddings: tables [ids, size] whose rows are looked up by id.

Called by the table of matchers.
"""

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.graph_search.bias import SAME_NUMBERS
from kfac.graph_search.records import MatchRecord, NotRegistrableError, RecordType
from kfac.graph_search.tower import Tower
from kfac.registration.subgraph import Use

_REORDERED = frozenset({"DynamicPartition", "Unique", "UniqueV2"})


def match_lookup(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    """Returns the embedding that a `Gather`, `GatherV2` or `ResourceGather` is."""
    op = use.op
    if variable.shape.rank != 2 or not is_by_row(use):
        raise NotRegistrableError(f"is not looked up by row of a matrix in {op.name!r}")
    ids = op.inputs[1]
    if _origin(ids).op.type in _REORDERED:
        raise NotRegistrableError(
            f"is looked up in {op.name!r} by ids that were reordered before, so it is unknown "
            "which example they belong to"
        )
    if ids.shape.rank is None:
        raise NotRegistrableError(f"is looked up in {op.name!r} by ids of unknown shape")
    data = {"inputs": ids, "outputs": op.outputs[0], "leading": ids.shape.as_list()}
    data |= tower.sharing_of(variable)
    return [tower.match(RecordType.embedding, variable, use, data, ids)]


def is_by_row(use: Use) -> bool:
    """Returns True if an op looks up rows of a matrix by ids, each for itself."""
    op = use.op
    batch_axes = op.get_attr("batch_dims") if op.type in {"GatherV2", "ResourceGather"} else 0
    axis = tf.get_static_value(op.inputs[2]) if op.type == "GatherV2" else 0
    is_table = op.type == "ResourceGather" or use.value.shape.rank == 2
    return use.position == 0 and is_table and axis == 0 and not batch_axes


def _origin(ids: Tensor) -> Tensor:
    while ids.op.type in SAME_NUMBERS | {"Cast"}:
        ids = ids.op.inputs[0]
    return ids
