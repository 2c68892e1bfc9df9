"""Functions that operations call: branches, bodies of loops, those of tf.data and `tf.function`."""

from collections.abc import Iterable, Mapping
from typing import Any, final

from replicate._types import Graph, Operation


@final
class FunctionLibrary:
    """Functions of a graph, read at the first operation that calls one."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._takes_functions: dict[str, bool] = {}
        self._functions: dict[str, Any] | None = None

    def nodes_below(self, operation: Operation) -> list[Any]:
        """Returns the nodes of all functions that an operation calls, directly or indirectly."""
        if not self._may_call(operation):
            return []
        if self._functions is None:
            functions = self._graph.as_graph_def().library.function
            self._functions = {each.signature.name: each for each in functions}
        called = called_by([operation.node_def], self._functions)
        return [node for name in called for node in self._functions[name].node_def]

    def _may_call(self, operation: Operation) -> bool:
        """Returns True if operations of this type call functions."""
        if operation.type not in self._takes_functions:
            kinds = {attribute.type for attribute in operation.op_def.attr}
            self._takes_functions[operation.type] = bool(kinds & {"func", "list(func)"})
        return self._takes_functions[operation.type]


def called_by(nodes: Iterable[Any], functions: Mapping[str, Any]) -> set[str]:
    """Returns the names of the functions that nodes call, directly or indirectly.

    Args:
      nodes: NodeDefs.
      functions: The functions of a library by their names.
    """
    found: set[str] = set()
    waiting = [name for node in nodes for name in _named_in(node)]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in found:
            found.add(name)
            waiting += [each for node in functions[name].node_def for each in _named_in(node)]
    return found


def _named_in(node: Any) -> list[str]:
    """Returns the names that a node calls functions by, among others."""
    names = [node.op]
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            names.append(value.func.name)
        elif kind == "list":
            names += [function.name for function in value.list.func]
    return names
