"""Names of shared embedding tables in checkpoints of other programs.

Columns of `tf.feature_column.shared_embeddings` and of
`tf.compat.v1.feature_column.shared_embedding_columns` made the same table under different names,
and each generation of tf.estimator in a different scope. A warm start tries all of them.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from replicate.checkpoint_names import add_former_names

v1 = tf.compat.v1

_WEIGHTS = "/embedding_weights"


@contextlib.contextmanager
def naming_shared_tables(layer: str) -> Iterator[None]:
    """Gives tables that are made inside their other names, see `add_former_names`.

    Args:
      layer: Scope of the columns below the current variable scope: "input_layer" or
        "linear_model".
    """
    scope = v1.get_variable_scope().name
    above = f"{scope}/" if scope else ""
    before = {each.ref() for each in v1.global_variables()}
    yield
    for variable in v1.global_variables():
        if variable.ref() not in before:
            name = variable.op.name
            table = name.removeprefix(above).removeprefix(f"{layer}/").removesuffix(_WEIGHTS)
            names = [f"{above}{table}", table, f"{above}{layer}/{table}{_WEIGHTS}"]
            add_former_names(variable, [each for each in names if each != name])
