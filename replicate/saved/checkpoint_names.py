"""Variables in checkpoints: names that differ from the graph, and state that may be missing.

`save_as` gives a variable of the graph another name in checkpoints. Code that writes or reads
checkpoints calls `saved_variables` and `saved_objects`, and so need not know who renamed what.
`model_average` saves the average of a weight under the name of the weight, for example.
`add_former_names` tells a warm start the names that other programs gave to a variable.

A checkpoint of another program may hold the weights of a model, and slots of its optimizer under
other names or none. `allow_missing_state` tells so when the optimizer is made. Code that loads
checkpoints asks `optional_states`, and starts a missing state at its initial values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Variable
from replicate.protocols import OPTIONAL_STATE, StateOwner

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


class OptimizerState(NamedTuple):
    """State of an optimizer, by its name, in the default graph: slots and other variables."""

    owner: str
    variables: list[Variable]


def allow_missing_state(optimizer: v1.train.Optimizer) -> None:
    """Tells that checkpoints may lack the state of an optimizer of the default graph.

    Its method `variables` lists them. Some may be made later.
    """
    told = v1.get_collection_ref(OPTIONAL_STATE)
    if not any(each is optimizer for each in told):
        told.append(optimizer)


def optional_states() -> list[OptimizerState]:
    """Returns the states that a checkpoint may lack. Call it when the graph is complete.

    Several wrappers of one optimizer share one state.
    """
    optimizers: list[StateOwner] = v1.get_collection(OPTIONAL_STATE)
    states: dict[frozenset[Any], OptimizerState] = {}
    for optimizer in optimizers:
        variables = list(optimizer.variables())
        key = frozenset(variable.ref() for variable in variables)
        states.setdefault(key, OptimizerState(optimizer.get_name(), variables))
    return [state for state in states.values() if state.variables]
