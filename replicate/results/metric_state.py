"""Updates of a tower's metrics, and the state that they read and change.

A metric keeps what it has seen in variables or other resources of the graph, or in Python, where
`tf.py_function` and its kin take it. The updates are all that a tower computes for its metrics.
"""

import collections
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, final

from replicate._types import Operation, Tensor
from replicate.graph_ops.state import (
    VARIABLES,
    PythonCalls,
    ancestors,
    is_state,
    may_change,
    needs,
    operations_in,
    users,
)

MetricOps: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Name → (value tensor, update operation)."""


@final
class MetricUpdates:
    """Updates of the metrics of one tower.

    Attributes:
      ends: The operations that the `eval_metric_ops` hold as updates.
    """

    def __init__(
        self,
        metrics: MetricOps,
        model: Iterable[Tensor],
        calls: PythonCalls,
        position: Mapping[Operation, int],
    ):
        """Finds the operations.

        Args:
          metrics: The tower's metrics.
          model: Loss and predictions of the tower. What these are computed from is no state of a
            metric, unless a value of a metric is computed from it, too.
          calls: Search for calls of Python in the graph.
          position: Place of each operation of the graph in the order of creation.
        """
        self._metrics = metrics
        self._calls = calls
        self.ends = [end for _, update in metrics.values() for end in operations_in(update)]
        self._needed = ancestors(self.ends)
        values = ancestors(each for value, _ in metrics.values() for each in operations_in(value))
        self._of_model = ancestors((tensor.op for tensor in model), control=False) - values
        self._keeps_in_python = any(map(calls.is_in, values))
        self._position = position

    def resources(self) -> list[Operation]:
        """Returns the variables and other resources that the updates use, in order of creation."""
        return self._in_order(each for each in self._needed - self._of_model if is_state(each))

    def changed_variables(self) -> list[Operation]:
        """Returns the variables that the updates may change, in order of creation."""
        return [
            each
            for each in self.resources()
            if each.type in VARIABLES
            and any(user in self._needed and may_change(user) for user in users(each))
        ]

    def python_calls(self) -> list[Operation]:
        """Returns the updates' calls of Python, in order, if a metric's value calls Python."""
        if not self._keeps_in_python:
            return []
        return self._in_order(filter(self._calls.is_in, self._needed - self._of_model))

    def depending_on(self, state: Iterable[Operation]) -> list[Operation]:
        """Returns the operations of the updates that need one of the given, in order of creation.

        Calls among the given operations are in the list, too; variables and tables are not.
        """
        dependents: dict[Operation, list[Operation]] = collections.defaultdict(list)
        for operation in self._needed:
            for each in needs(operation):
                dependents[each].append(operation)
        given = list(state)
        found: set[Operation] = set()
        pending = [each for each in given if not is_state(each)]
        pending += [user for each in given for user in dependents[each]]
        while pending:
            operation = pending.pop()
            if operation not in found:
                found.add(operation)
                pending += dependents[operation]
        return self._in_order(found)

    def names_of(self, operation: Operation) -> list[str]:
        """Returns the names of the metrics whose updates need an operation."""
        return [
            name
            for name, (_, update) in self._metrics.items()
            if operation in ancestors(operations_in(update))
        ]

    def _in_order(self, operations: Iterable[Operation]) -> list[Operation]:
        return sorted(operations, key=self._position.__getitem__)
