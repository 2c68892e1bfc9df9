"""Warning about random operations whose state a checkpoint cannot hold.

Owns the search for operations that keep their random state in the session, where it cannot be
saved. A resumed run draws their first numbers again. Stateless operations and `tf.random.Generator`
do not have this fault. Operations of initialisers and of tf.data do not count, since no step runs
them. `Estimator.train` warns; `replicate.step_seed` is the remedy.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from replicate._types import Graph, Operation
from replicate.estimator.log import log

v1 = tf.compat.v1

STATEFUL_TYPES = frozenset(
    {
        "FixedUnigramCandidateSampler",
        "FractionalAvgPool",
        "FractionalMaxPool",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomCrop",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
        "ThreadUnsafeUnigramCandidateSampler",
        "TruncatedNormal",
        "UniformCandidateSampler",
    }
)
"""Types of operations that keep a random state of their own."""

_SHOWN = 5


def warn_of_random_ops(train_op: Operation) -> bool:
    """Warns if a step has random operations with a state; returns True if it has."""
    found = stateful_random_ops(train_op)
    if not found:
        return False
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    log.warning(
        "Checkpoints cannot hold the state of these random operations: %s%s. A run that is resumed "
        "draws their first numbers again, and does not end with the numbers of an uninterrupted "
        "one. Use stateless operations with a seed made of the step, such as "
        "tf.nn.experimental.stateless_dropout(x, rate, seed=replicate.step_seed(1)).",
        ", ".join(found[:_SHOWN]),
        more,
    )
    return True


def stateful_random_ops(train_op: Operation) -> list[str]:
    """Returns the names of the random operations with a state that a step runs.

    An operation in the body of a function, such as a branch of `tf.cond`, is named after the
    operation that calls the function: "cond/RandomUniform".
    """
    graph = train_op.graph
    library = _Library(graph)
    found = []
    for op in _ancestors(getattr(train_op, "op", train_op)):
        if op.type in STATEFUL_TYPES:
            found.append(op.name)
        elif library.takes_functions(op):
            found.extend(f"{op.name}/{name}" for name in library.random_ops(op.node_def.attr))
    return sorted(found)


def _ancestors(op: Operation) -> Iterator[Operation]:
    """Yields an operation and all operations that run before it in a step."""
    seen, waiting = {op}, [op]
    while waiting:
        op = waiting.pop()
        yield op
        for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            if source not in seen:
                seen.add(source)
                waiting.append(source)


class _Library:
    """Functions of a graph, read at the first operation that calls one."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._takes_functions: dict[str, bool] = {}
        self._functions: dict[str, Any] | None = None

    def takes_functions(self, op: Operation) -> bool:
        """Returns True if operations of this type call functions."""
        if op.type not in self._takes_functions:
            kinds = {attr.type for attr in op.op_def.attr}
            self._takes_functions[op.type] = bool(kinds & {"func", "list(func)"})
        return self._takes_functions[op.type]

    def random_ops(self, attributes: Any) -> set[str]:
        """Returns the names of stateful random operations in the functions of some attributes."""
        if self._functions is None:
            functions = self._graph.as_graph_def().library.function
            self._functions = {function.signature.name: function for function in functions}
        found, seen = set(), set()
        waiting = list(_named_functions(attributes.values()))
        while waiting:
            function = self._functions.get(waiting.pop())
            if function is None or function.signature.name in seen:
                continue
            seen.add(function.signature.name)
            for node in function.node_def:
                if node.op in STATEFUL_TYPES:
                    found.add(node.name)
                waiting.extend(_named_functions(node.attr.values()))
        return found


def _named_functions(attributes: Iterable[Any]) -> Iterator[str]:
    """Yields the names of the functions in attributes of a node."""
    for attribute in attributes:
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)
