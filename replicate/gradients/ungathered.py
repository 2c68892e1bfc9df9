"""Updates that a tower or a worker makes of its own gradients: of an optimizer that is not wrapped.

An update is a kernel of an optimizer, or an assignment of a value that is computed from gradients,
to a trainable variable. Other assignments of a tower, such as averages of weights, clipped weights
and copies for a target network, are not.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation
from replicate.graph_ops.state import ancestors, operations_in, passes_state, users

v1 = tf.compat.v1

_KERNEL = re.compile(r"(Resource)?(Sparse)?Apply")
_ASSIGNMENT = re.compile(r"Assign|(Resource)?Scatter")
_GRADIENTS = re.compile(r"(^|/)(gradients(_\d+)?|gradient_tape)/")
"""Matches the names that `tf.gradients` and `tf.GradientTape` give to their operations."""


def ungathered_variables(train_op: Any, names: str, gathered: Sequence[Operation]) -> list[str]:
    """Returns the trainable variables that a tower's `train_op` updates by its own gradients.

    Args:
      train_op: Operation, Tensor or nest of them that the tower trains by.
      names: Name scope of the tower, which has no operation of another tower; "" for the only one.
      gathered: Operations of the updates from the gradients of all towers and workers.
    """
    known = set(gathered)
    updates: dict[str, Sequence[Operation]] = {}
    for variable in v1.trainable_variables():
        found = [
            each
            for each in users(variable.op)
            if each not in known and each.name.startswith(names) and _is_update(each)
        ]
        if found:
            updates[variable.op.name] = found
    runs = ancestors(operations_in(train_op)) if updates else set()
    return [name for name, found in updates.items() if not runs.isdisjoint(found)]


def _is_update(operation: Operation) -> bool:
    if _KERNEL.match(operation.type):
        return True
    return bool(_ASSIGNMENT.match(operation.type)) and _uses_gradients(operation)


def _uses_gradients(operation: Operation) -> bool:
    values: Iterable[Operation] = [
        tensor.op for tensor in operation.inputs if not passes_state(tensor)
    ]
    return any(_GRADIENTS.search(each.name) for each in ancestors(values, control=False))
