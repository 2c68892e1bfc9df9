"""MetricSums: the local variables of a model's metrics, to be added up over workers.

Each worker evaluates other batches. A metric whose variables change by additions alone, such as all
of `tf.compat.v1.metrics`, has the value of all batches after its variables were added over the
workers. This module finds these variables in the graph and refuses metrics that keep anything else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Tensor, Variable

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

_READING = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"))
"""Types of the operations with state that read a variable."""

_STATE = frozenset(("VarHandleOp", "VariableV2", "Variable"))
"""Types of the operations that stand for variables."""


@final
class MetricSums:
    """The variables in which one worker's metrics have added up its batches."""

    def __init__(
        self, metrics: Mapping[str, tuple[Any, Any]], merges: Iterable[Operation] = ()
    ) -> None:
        """Finds the variables, and adds operations to the default graph.

        Args:
          metrics: Value and update of each metric by its name.
          merges: Operations that add up variables over towers.

        Raises:
          ValueError: A metric keeps something else than sums.
        """
        search = _Search(merges)
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

    def __init__(self, merges: Iterable[Operation]):
        self._merges = {operation.name for operation in merges}
        self._local = {variable.op.name: variable for variable in v1.local_variables()}

    def sums_of(self, name: str, value: Any) -> list[Variable]:
        """Returns the local variables that a metric's value is computed from."""
        values = [each for each in tf.nest.flatten(value) if not isinstance(each, tf.Operation)]
        ancestors = _ancestors(map(tf.convert_to_tensor, values))
        variables = [self._local[op.name] for op in ancestors if op.name in self._local]
        for operation in ancestors:
            if not (operation.type in _READING | _STATE or _is_pure(operation)):
                raise _not_a_sum(name, f"its value depends on {_described(operation)}")
        for variable in variables:
            for operation in variable.op.outputs[0].consumers():
                self._check(name, variable, operation)
        return variables

    def _check(self, name: str, variable: Variable, operation: Operation) -> None:
        """Refuses an operation that changes a variable other than by additions."""
        if operation is variable.initializer or operation.name in self._merges:
            return
        if operation.type in _ADDING:
            added = _ancestors(list(operation.inputs)[1:])
            if any(each is variable.op for each in added):
                raise _not_a_sum(
                    name,
                    f"{_described(operation)} adds to its variable {variable.op.name!r} a value "
                    "that depends on the variable",
                )
        elif operation.type not in _READING and _may_write(operation, variable):
            raise _not_a_sum(
                name, f"{_described(operation)} may change its variable {variable.op.name!r}"
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


def _ancestors(tensors: Iterable[Tensor]) -> list[Operation]:
    """Returns the operations that tensors are computed from, without control dependencies."""
    found: dict[str, Operation] = {}
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs]
    return list(found.values())


def _is_pure(operation: Operation) -> bool:
    """Returns True for an operation whose outputs follow from its inputs."""
    return not operation.op_def.is_stateful or operation.type in ("Assert", "Print", "PrintV2")


def _may_write(operation: Operation, variable: Variable) -> bool:
    """Returns True if an operation that has a variable among its inputs may change it."""
    if variable.op.type == "VarHandleOp":
        return bool(operation.op_def.is_stateful) and operation.type != "VarIsInitializedOp"
    takes_reference = any(argument.is_ref for argument in operation.op_def.input_arg)
    return takes_reference and operation.type != "IsVariableInitialized"
