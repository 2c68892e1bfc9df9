"""MetricSums: the local variables of a model's metrics, to be added up over workers.

Each worker evaluates other batches. A metric whose variables change by additions alone, such as all
of `tf.compat.v1.metrics`, has the value of all batches after its variables were added over the
workers. This module finds these variables in the graph and refuses metrics that keep anything else.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.graph_ops.state import (
    READING,
    VARIABLES,
    ancestors,
    may_change,
    operations_in,
    users,
)

v1 = tf.compat.v1

_ADDING = frozenset(
    before + how + after
    for how in ("Add", "Sub")
    for before, after in (
        ("Assign", "VariableOp"),
        ("ResourceScatter", ""),
        ("ResourceScatterNd", ""),
        ("Assign", ""),
        ("Scatter", ""),
        ("ScatterNd", ""),
    )
)
"""Types of the operations that add to a variable, or subtract from it."""


@final
class MetricSums:
    """The variables in which one worker's metrics have added up its batches."""

    def __init__(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        """Finds the variables, and adds operations to the default graph.

        Args:
          metrics: Value and update of each metric by its name.

        Raises:
          ValueError: A metric keeps something else than sums.
        """
        search = _Search([update for _, update in metrics.values()])
        found = {
            variable.op.name: variable
            for name, (value, _) in sorted(metrics.items())
            for variable in search.sums_of(name, value)
        }
        self._first: list[Any] = []
        self._variables = [found[name] for name in sorted(found)]
        with v1.name_scope("metric_sums"):
            self._values = [variable.read_value() for variable in self._variables]
            self._totals = [v1.placeholder(value.dtype, value.shape) for value in self._values]
            pairs = zip(self._variables, self._totals, strict=True)
            self._assign = v1.group(*(v1.assign(*pair) for pair in pairs))

    @property
    def facts(self) -> list[str]:
        """A line for each variable, which must be the same on all workers."""
        return [
            f"{each.op.name} {each.shape} {each.dtype.base_dtype.name}" for each in self._variables
        ]

    def begin(self, session: v1.Session) -> None:
        """Keeps the values that the variables have before the first batch, nearly always 0."""
        self._first = session.run(self._values)

    def read(self, session: v1.Session) -> list[np.ndarray]:
        """Returns what this worker's batches have added since `begin`."""
        pairs = zip(session.run(self._values), self._first, strict=True)
        return [np.asarray(value - first) for value, first in pairs]

    def write(self, session: v1.Session, totals: Sequence[np.ndarray]) -> None:
        """Sets the variables to what the batches of all workers have added, from `begin` on."""
        values = [first + total for first, total in zip(self._first, totals, strict=True)]
        session.run(self._assign, dict(zip(self._totals, values, strict=True)))


@final
class _Search:
    """Search for the sums of metrics in the default graph."""

    def __init__(self, updates: Sequence[Any]):
        updating = ancestors(operations_in(updates))
        self._local = {variable.op: variable for variable in v1.local_variables()}
        self._changed = {
            each
            for each in updating
            if each.type in VARIABLES
            and any(user in updating and may_change(user) for user in users(each))
        }
        """Variables that the metrics change, by their operations."""

    def sums_of(self, name: str, value: Any) -> list[Variable]:
        """Returns the local variables that a metric's value is computed from."""
        needed = sorted(ancestors(operations_in(value), control=False), key=lambda each: each.name)
        for operation in needed:
            if not (operation.type in READING | VARIABLES or _is_pure(operation)):
                raise _not_a_sum(name, f"its value depends on {_described(operation)}")
            if operation in self._changed and operation not in self._local:
                raise _not_a_sum(name, f"its variable {operation.name!r} is not a local one")
        variables = [self._local[each] for each in needed if each in self._local]
        for variable in variables:
            for operation in users(variable.op):
                self._check(name, variable, operation)
        return variables

    def _check(self, name: str, variable: Variable, operation: Operation) -> None:
        """Refuses an operation that changes a variable other than by additions."""
        if operation is variable.initializer or not may_change(operation):
            return
        if operation.type not in _ADDING:
            raise _not_a_sum(
                name, f"{_described(operation)} may change its variable {variable.op.name!r}"
            )
        added = ancestors([each.op for each in list(operation.inputs)[1:]], control=False)
        for other in sorted(self._changed & added, key=lambda each: each.name):
            raise _not_a_sum(
                name,
                f"{_described(operation)} adds to its variable {variable.op.name!r} a value that "
                f"depends on the variable {other.name!r}, which also changes",
            )


def _not_a_sum(name: str, reason: str) -> ValueError:
    return ValueError(
        f"Cannot evaluate metric {name!r} by several workers, as AllReduce(evaluates=True) asks: "
        f"{reason}. Only metrics whose local variables are sums over batches can be added up over "
        "workers, as those of tf.compat.v1.metrics and Keras are. Use another metric, or leave out "
        "evaluates=True and let an evaluator or the chief evaluate all batches."
    )


def _described(operation: Operation) -> str:
    return f"the operation {operation.name!r} ({operation.type})"


def _is_pure(operation: Operation) -> bool:
    """Returns True for an operation whose outputs follow from its inputs."""
    return not operation.op_def.is_stateful or operation.type in ("Assert", "Print", "PrintV2")
