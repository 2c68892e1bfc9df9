"""Variables that an operation assigns, directly or in the functions that it calls.

A variable may reach an assignment through copies of its handle, through the switches of a
conditional, or as an argument of a function (`tf.cond`, `tf.while_loop`, `tf.function`). Used by
`folds`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Graph, Operation, Tensor

ASSIGNMENTS = frozenset(
    {
        "Assign",
        "AssignAdd",
        "AssignAddVariableOp",
        "AssignSub",
        "AssignSubVariableOp",
        "AssignVariableOp",
    }
)
_SWITCHES = frozenset({"Enter", "RefEnter", "RefSwitch", "Switch"})
_PASSING = frozenset({"Identity", "RefIdentity", *_SWITCHES})

BRANCHES = frozenset(
    {"Case", "If", "StatelessCase", "StatelessIf", "StatelessWhile", "While", *_SWITCHES}
)
"""Types of operations that give variables to branches and loops.

A control dependency on such an operation does not wait for assignments in the branch or loop. The
outputs of the branch or loop do.
"""

_FUNCTIONS = {
    "Case": ("branches", 1),
    "If": ("then_branch else_branch", 1),
    "PartitionedCall": ("f", 0),
    "StatefulPartitionedCall": ("f", 0),
    "StatelessCase": ("branches", 1),
    "StatelessIf": ("then_branch else_branch", 1),
    "StatelessWhile": ("cond body", 0),
    "While": ("cond body", 0),
}
"""Type of an operation → attributes that name its functions, position of the first argument."""


class Assignments:
    """Finds assigned variables in one graph. Reads the graph's functions at most once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._functions: dict[str, Any] | None = None
        self._positions: dict[str, frozenset[int]] = {}
        """Name of a function → positions of the arguments that it assigns."""

    def assigned_by(self, operation: Operation) -> list[Operation]:
        """Returns the operations of the variables that an operation of the graph itself assigns."""
        return [_way_to_variable(tensor)[-1].op for tensor in self._written(operation)]

    def is_in_branch(self, operation: Operation) -> bool:
        """Returns True if an operation assigns a variable in a branch or loop."""
        return operation.type in BRANCHES or any(
            passed.op.type in BRANCHES
            for tensor in self._written(operation)
            for passed in _way_to_variable(tensor)
        )

    def _written(self, operation: Operation) -> Sequence[Tensor]:
        if operation.type in ASSIGNMENTS:
            return [operation.inputs[0]]
        if operation.type not in _FUNCTIONS:
            return []
        if not any(tensor.dtype == tf.resource for tensor in operation.inputs):
            return []
        inputs = operation.inputs
        return [inputs[position] for position in self._of_call(operation.node_def)]

    def _of_call(self, node: Any) -> set[int]:
        """Returns the positions of the inputs that the functions of a call assign."""
        attributes, first = _FUNCTIONS[node.op]
        names = [name for key in attributes.split() for name in _names(node.attr[key])]
        return {first + position for name in names for position in self._of_function(name)}

    def _of_function(self, name: str) -> frozenset[int]:
        if name not in self._positions:
            self._positions[name] = frozenset()  # A function that calls itself adds nothing more.
            self._positions[name] = frozenset(self._look_into(self._library()[name]))
        return self._positions[name]

    def _library(self) -> dict[str, Any]:
        if self._functions is None:
            library = self._graph.as_graph_def().library.function
            self._functions = {each.signature.name: each for each in library}
        return self._functions

    def _look_into(self, function: Any) -> Iterator[int]:
        arguments = {each.name: number for number, each in enumerate(function.signature.input_arg)}
        nodes = {node.name: node for node in function.node_def}
        for node in function.node_def:
            written: Iterable[int] = [0] if node.op in ASSIGNMENTS else []
            if node.op in _FUNCTIONS:
                written = self._of_call(node)
            for position in written:
                name = node.input[position]
                while name not in arguments and nodes[name.split(":")[0]].op in _PASSING:
                    name = nodes[name.split(":")[0]].input[0]
                if name in arguments:
                    yield arguments[name]


def _way_to_variable(tensor: Tensor) -> list[Tensor]:
    """Returns a handle or reference and its originals, the last of which is the variable's own."""
    way = [tensor]
    while way[-1].op.type in _PASSING and way[-1].op.inputs:
        way.append(way[-1].op.inputs[0])
    return way


def _names(attribute: Any) -> list[str]:
    functions = attribute.list.func if attribute.HasField("list") else [attribute.func]
    return [function.name for function in functions]
