"""State of a graph: what operations read and change besides their inputs.

State is in variables, tables and other resources, which operations reach through a handle or a
reference, and in Python, which operations of `tf.py_function` and its kin call. Used where metrics
of several towers or workers become those of one.
"""

from collections.abc import Iterable
from typing import Any, final

import tensorflow as tf

from replicate._types import Graph, Operation, Tensor
from replicate.graph_ops.functions import FunctionLibrary

READING = frozenset(
    (
        "IsVariableInitialized",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VarIsInitializedOp",
        "VariableShape",
    )
)
"""Types of the operations with state, or with a reference, that only read a variable."""

VARIABLES = frozenset(("VarHandleOp", "VariableV2", "Variable"))
"""Types of the operations that stand for variables."""

_PYTHON = frozenset(("EagerPyFunc", "PyFunc"))
"""Types of the operations that call Python functions which may keep something."""


def operations_in(nest: Any) -> list[Operation]:
    """Returns the operations of the operations, tensors and variables in a nest."""
    leaves = tf.nest.flatten(nest, expand_composites=True)
    return [each if isinstance(each, tf.Operation) else _operation(each) for each in leaves]


def _operation(leaf: Any) -> Operation:
    return leaf.op if hasattr(leaf, "op") else tf.convert_to_tensor(leaf).op


def ancestors(operations: Iterable[Operation], control: bool = True) -> set[Operation]:
    """Returns operations and all that they need.

    Args:
      operations: Operations to start from.
      control: True to follow control dependencies, too.
    """
    found: set[Operation] = set()
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation not in found:
            found.add(operation)
            pending += needs(operation) if control else [each.op for each in operation.inputs]
    return found


def needs(operation: Operation) -> list[Operation]:
    """Returns the operations that run before an operation: its inputs and control inputs."""
    return [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]


def is_state(operation: Operation) -> bool:
    """Returns True for a variable, table or another resource that lives longer than a step."""
    return (
        not operation.inputs and len(operation.outputs) == 1 and passes_state(operation.outputs[0])
    )


def passes_state(tensor: Tensor) -> bool:
    """Returns True for a handle or a reference."""
    return bool(tensor.dtype == tf.resource or tensor.dtype != tensor.dtype.base_dtype)


def users(state: Operation) -> list[Operation]:
    """Returns the operations that take a handle or a reference, or a copy of it."""
    found: dict[Operation, None] = {}
    pending: list[Tensor] = list(state.outputs)
    while pending:
        for operation in pending.pop().consumers():
            if operation not in found:
                found[operation] = None
                pending += [each for each in operation.outputs if passes_state(each)]
    return list(found)


def may_change(operation: Operation) -> bool:
    """Returns True for a user of a variable that may change it itself."""
    if operation.type in READING or operation.type.startswith("Ref"):  # RefSwitch and its kin.
        return False
    takes_reference = any(argument.is_ref for argument in operation.op_def.input_arg)
    return takes_reference or bool(operation.op_def.is_stateful)


@final
class PythonCalls:
    """Finds operations of one graph that call Python, also in the functions that they call."""

    def __init__(self, graph: Graph):
        self._library = FunctionLibrary(graph)

    def is_in(self, operation: Operation) -> bool:
        """Returns True if an operation calls Python, itself or in a function."""
        return operation.type in _PYTHON or any(
            node.op in _PYTHON for node in self._library.nodes_below(operation)
        )
