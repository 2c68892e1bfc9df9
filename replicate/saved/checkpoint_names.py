"""Names of variables in checkpoints, where these differ from the names in the graph.

`save_as` gives a variable of the graph another name in checkpoints. Code that writes or reads
checkpoints calls `saved_variables` and `saved_objects`, and so need not know who renamed what.
`model_average` saves the average of a weight under the name of the weight, for example.
`add_former_names` tells a warm start the names that other programs gave to a variable.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Variable

v1 = tf.compat.v1

_RENAMED = ("replicate", "checkpoint_names")
"""Key of the (variable, name) pairs of a graph. Not a string: never exported."""
_FORMER = ("replicate", "former_names")
"""Key of the (variable, names) pairs of a graph, for warm starts."""


def save_as(variable: Variable, name: str) -> None:
    """Gives a variable of the default graph another name in checkpoints."""
    v1.add_to_collection(_RENAMED, (variable, name))


def add_former_names(variable: Variable, names: Sequence[str]) -> None:
    """Tells under which other names checkpoints of another program may hold a variable.

    A warm start looks for these, in order, where the variable's own name is not in the checkpoint.
    """
    v1.add_to_collection(_FORMER, (variable, tuple(names)))


def former_names() -> dict[str, tuple[str, ...]]:
    """Returns the other names of variables of the default graph, by their own names."""
    return {variable.op.name: names for variable, names in v1.get_collection(_FORMER)}


def saved_variables() -> dict[str, Variable]:
    """Returns the variables of the default graph that a checkpoint holds, by their names in it."""
    names = {variable.ref(): name for variable, name in v1.get_collection(_RENAMED)}
    return {names.get(each.ref(), each.op.name): each for each in v1.global_variables()}


def saved_objects() -> dict[str, Any] | None:
    """Returns the argument for `tf.compat.v1.train.Saver`: what to save, by name.

    ```
    saver = tf.train.Saver(replicate.model_average.saved_objects())
    ```

    Returns:
      None, which means everything, if no variable has another name in checkpoints.
    """
    if not v1.get_collection(_RENAMED):
        return None
    others = v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)
    return {**saved_variables(), **{each.name: each for each in others}}
