"""Random operations that a checkpoint cannot hold, and the warning about them.

Owns the search for operations that keep the state of their random numbers in the session, where
nothing can save it: a resumed run draws their first numbers once more. Stateless operations and
`tf.random.Generator` are not among them, nor are those of initialisers and of tf.data, which
training does not run. `Estimator.train` warns; `replicate.step_seed` is the cure.
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
"""Types of operations whose random state is their own."""

_SHOWN = 5


def warn_of_random_ops(train_op: Operation) -> bool:
    """Warns if a step draws random numbers that a resumed run will not; returns whether it does.

    Args:
      train_op: Operation or Tensor that makes a step.
    """
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
    """Returns the names of the random operations with a state of their own that a step runs.

    Those in the body of a function, such as a branch of `tf.cond`, follow the name of the operation
    that calls it: "cond/RandomUniform".

    Args:
      train_op: Operation or Tensor that makes a step.
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
    """An operation and all that run before it in a step, each once."""
    seen, waiting = {op}, [op]
    while waiting:
        op = waiting.pop()
        yield op
        for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            if source not in seen:
                seen.add(source)
                waiting.append(source)


class _Library:
    """The functions of a graph, read when the first operation that calls one is met."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._takes_functions: dict[str, bool] = {}
        self._functions: dict[str, Any] | None = None

    def takes_functions(self, op: Operation) -> bool:
        """Whether operations of this type call functions."""
        if op.type not in self._takes_functions:
            kinds = {attr.type for attr in op.op_def.attr}
            self._takes_functions[op.type] = bool(kinds & {"func", "list(func)"})
        return self._takes_functions[op.type]

    def random_ops(self, attributes: Any) -> set[str]:
        """The names of stateful random operations in the functions that attributes name."""
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
    """The names of the functions that attributes of a node stand for."""
    for attribute in attributes:
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)
