"""Shared embedding tables: their names in checkpoints of other programs, and towers.

Columns of `tf.feature_column.shared_embeddings` and of
`tf.compat.v1.feature_column.shared_embedding_columns` made the same table under different names,
and each generation of tf.estimator in a different scope. A warm start tries all of them.

TensorFlow makes such a table once in a graph, and does not ask for it again in a second tower. It
is asked for here, so that every tower has all variables of the first.
"""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from replicate._types import Variable
from replicate.saved.checkpoint_names import add_former_names

v1 = tf.compat.v1

_WEIGHTS = "/embedding_weights"
_PART = re.compile(r"/part_\d+$")
_TABLES = ("replicate", "shared_tables")
"""Key of the (scope, layer, variable) triples of a graph. Not a string: never exported."""


@contextlib.contextmanager
def tracking_shared_tables(layer: str) -> Iterator[None]:
    """Gives tables that are made inside their other names, see `add_former_names`.

    `layer` is the scope of the columns: "input_layer" or "linear_model".
    """
    scope = v1.get_variable_scope().name
    earlier = [each for *place, each in v1.get_collection(_TABLES) if place == [scope, layer]]
    before = {each.ref() for each in v1.global_variables()}
    yield
    _ask_again(scope, earlier)
    for variable in v1.global_variables():
        if variable.ref() not in before:
            v1.add_to_collection(_TABLES, (scope, layer, variable))
            add_former_names(variable, _other_names(variable.op.name, scope, layer))


def _other_names(name: str, scope: str, layer: str) -> list[str]:
    above = f"{scope}/" if scope else ""
    table = name.removeprefix(above).removeprefix(f"{layer}/").removesuffix(_WEIGHTS)
    names = [f"{above}{table}", table, f"{above}{layer}/{table}{_WEIGHTS}"]
    return [each for each in names if each != name]


def _ask_again(scope: str, tables: list[Variable]) -> None:
    """Gets tables of an earlier tower by their names; partitioned ones have parts of rows."""
    above = f"{scope}/" if scope else ""
    parts: dict[str, list[Variable]] = {}
    for table in tables:
        parts.setdefault(_PART.sub("", table.op.name), []).append(table)
    with v1.variable_scope(
        v1.get_variable_scope(), reuse=True, auxiliary_name_scope=False
    ) as current:
        for name, found in parts.items():
            if found[0].op.name == name:
                current.set_partitioner(None)
            shape = [sum(each.shape[0] for each in found), *found[0].shape[1:]]
            v1.get_variable(name.removeprefix(above), shape, found[0].dtype.base_dtype)
