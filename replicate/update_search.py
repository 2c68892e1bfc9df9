"""Search for the operations of a tower that update running statistics of the batch.

Layers list them in UPDATE_OPS, or keep them to themselves as those of Keras do, or let their
outputs wait for them (`updates_collections=None`). An assignment that is in no collection counts if
its value is computed from the batch. Called by `batch_statistics`.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.assignments import Assignments

v1 = tf.compat.v1


class TowerUpdates(NamedTuple):
    """Update operations of one tower.

    Attributes:
      done: Operations to run in every step; all updates have run when these have.
      runs: The updates and operations that they need.
      assigned: Operations that stand for the variables that these assign.
    """

    done: list[Operation]
    runs: set[Operation]
    assigned: set[Operation]


class UpdateSearch:
    """The search in one tower, once it has been built."""

    def __init__(
        self,
        operations: Collection[Operation],
        batch: Iterable[Tensor],
        ends: Sequence[Operation],
    ):
        """Prepares the search.

        Args:
          operations: All operations of the tower.
          batch: The tensors of its shard.
          ends: The ends of the tower's losses and gradients, which run in every step.
        """
        self._operations = operations
        self._within = set(operations)
        self._batch = {tensor.op for tensor in batch}
        self._within_or_batch = self._within | self._batch
        self._ends = ends
        self._assignments = Assignments(v1.get_default_graph())

    def updates(
        self,
        listed: list[Operation],
        unlisted: Collection[Operation],
        asked_for: Collection[Operation],
    ) -> TowerUpdates:
        """Finds all updates.

        Args:
          listed: Those in UPDATE_OPS.
          unlisted: Operations that stand for variables whose assignments count even if they are in
            no collection and nothing waits for them.
          asked_for: Likewise for variables whose assignments count only if they are in UPDATE_OPS
            or the tower's ends wait for them.
        """
        reached = _ancestors(listed, self._within)
        found, done = [], list(listed)
        for operation in self._operations:
            targets = self._assignments.assigned_by(operation)
            is_unlisted = any(target in unlisted for target in targets)
            if not is_unlisted and not any(target in asked_for for target in targets):
                continue
            if operation in reached or not self._depends_on_batch(operation):
                continue
            after = self._done_after(operation, is_unlisted)
            if after:
                found.append(operation)
                done += [each for each in after if each not in done]
        runs = reached | _ancestors(found, self._within, _assigned_before)
        assigned = {target for each in runs for target in self._assignments.assigned_by(each)}
        return TowerUpdates(done, runs, assigned)

    def _done_after(self, operation: Operation, is_unlisted: bool) -> Sequence[Operation]:
        """Returns what to run so that an assignment has run, if it counts; else nothing."""
        is_awaited = operation in self._awaited
        if self._assignments.is_in_branch(operation):
            return self._ends if is_awaited else []
        return [operation] if is_awaited or is_unlisted else []

    def _depends_on_batch(self, operation: Operation) -> bool:
        values = _sources(operation)[1:]
        ancestors = _ancestors(values, self._within_or_batch, _assigned_before)
        return not self._batch.isdisjoint(ancestors)

    @functools.cached_property
    def _awaited(self) -> set[Operation]:
        """Returns all operations that the tower's ends wait for."""
        return _ancestors(self._ends, self._within)


def _all_control(operation: Operation) -> Sequence[Operation]:
    return operation.control_inputs


def _assigned_before(operation: Operation) -> Sequence[Operation]:
    """Returns the assignments whose result the operation reads."""
    if operation.type != "ReadVariableOp":
        return []
    handle = operation.inputs[0].op
    return [each for each in operation.control_inputs if handle in _sources(each)]


def _sources(operation: Operation) -> list[Operation]:
    return [tensor.op for tensor in operation.inputs]


def _ancestors(
    operations: Iterable[Operation],
    within: Collection[Operation],
    control: Callable[[Operation], Sequence[Operation]] = _all_control,
) -> set[Operation]:
    """Returns the operations and all that they need, as far as it lies `within`.

    Args:
      operations: Where to begin.
      within: Where to look.
      control: Chooses the control dependencies of an operation that are followed.
    """
    found: set[Operation] = set()
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation in found or operation not in within:
            continue
        found.add(operation)
        pending += _sources(operation)
        pending += control(operation)
    return found
