"""Optimizers whose state a checkpoint may lack.

A checkpoint of another program may hold the weights of a model, and slots of its optimizer under
other names or none. `allow_missing_state` tells so when the optimizer is made; whoever loads
checkpoints asks `optional_states`, and starts a missing state at its initial values.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Variable
from replicate.protocols import OPTIONAL_STATE, StateOwner

v1 = tf.compat.v1


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
