"""Variables that towers read and write one after the other, in the order of the towers.

Each tower except the first gets a view of the variable: another handle of the same state. The
handle waits until the previous tower has finished with the variable in this step. So every
operation that uses the view waits too; all other operations run in parallel. Used by `statistics`.
"""

from collections.abc import Collection, Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.batch_norm.assignments import BRANCHES

v1 = tf.compat.v1


class VariablesInTurn:
    """Views of variables in one graph."""

    def __init__(self) -> None:
        self._latest: dict[Any, Variable] = {}
        """Reference of a variable → its newest view."""
        self._awaited: dict[Any, list[Operation]] = {}
        """Reference of a variable → operations that its next view waits for."""

    def record(
        self, variables: Iterable[Variable], runs: Collection[Operation], ends: list[Operation]
    ) -> None:
        """Records how the last tower uses variables.

        Args:
          variables: The original variables.
          runs: Operations of the tower that run in every step.
          ends: Operations that run after all of `runs`, in every step. If the tower uses a variable
            in a branch or loop, the next view waits for these.
        """
        for variable in variables:
            reference = variable.ref()
            accesses = _accesses(self._latest.get(reference, variable), runs)
            if any(operation.type in BRANCHES for operation in accesses):
                accesses = ends
            if accesses:
                self._awaited[reference] = accesses

    def view(self, variable: Variable) -> Variable:
        """Makes the view of a variable for the next tower.

        Returns:
          A variable of the same kind. It is in no collection.
        """
        reference = variable.ref()
        description = variable.to_proto()
        with tf.init_scope(), v1.name_scope(None):
            with v1.control_dependencies(self._awaited.get(reference, [])):
                state = _state_again(variable)
            read = _read(state, variable.dtype.base_dtype)
        description.variable_name, description.snapshot_name = state.name, read.name
        self._latest[reference] = type(variable).from_proto(description)
        return self._latest[reference]

    def operations_of(self, variable: Variable) -> list[Operation]:
        """Returns the operation of a variable's newest view; an empty list if there is none."""
        view = self._latest.get(variable.ref())
        return [] if view is None else [view.op]


def _accesses(variable: Variable, runs: Collection[Operation]) -> list[Operation]:
    """Returns the operations among `runs` that read or write a variable."""
    state = variable.op.outputs[0]
    direct = state.consumers()
    found = [operation for operation in direct if operation in runs]
    if state.dtype == tf.resource:
        return found
    # A copy of a reference refers to the same memory, so readers of the copy read the variable.
    copies = [operation for operation in direct if operation.type == "Identity"]
    readers = (reader for copy in copies for reader in copy.outputs[0].consumers())
    return [*found, *(reader for reader in readers if reader in runs)]


def _state_again(variable: Variable) -> Tensor:
    """Returns another handle of a resource variable, or another reference of a reference one."""
    operation = variable.op
    name = f"{operation.name}/in_turn"
    with v1.get_default_graph().colocate_with(operation, ignore_existing=True):
        if operation.outputs[0].dtype != tf.resource:
            return tf.raw_ops.RefIdentity(input=operation.outputs[0], name=name)
        return tf.raw_ops.VarHandleOp(
            dtype=operation.get_attr("dtype"),
            shape=operation.get_attr("shape"),
            container=operation.get_attr("container"),
            shared_name=operation.get_attr("shared_name") or operation.name,
            name=name,
        )


def _read(state: Tensor, dtype: tf.DType) -> Tensor:
    if state.dtype == tf.resource:
        return tf.raw_ops.ReadVariableOp(resource=state, dtype=dtype)
    return tf.identity(state)
