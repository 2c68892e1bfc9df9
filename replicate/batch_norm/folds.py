"""Folds: the operations of a tower that fold its batch into running statistics.

TensorFlow calls them update operations. Most layers list them in UPDATE_OPS. Keras layers keep them
in the layer, and layers with `updates_collections=None` let their outputs wait for them. An
assignment in no collection is a fold if its value is computed from the batch, or if the tower's
loss or gradients wait for it: such as a counter of steps. Used by `statistics`.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.batch_norm.assignments import Assignments

v1 = tf.compat.v1


class TowerFolds(NamedTuple):
    """Folds of one tower.

    Attributes:
      done: Operations to run in every step. After them, all folds have run.
      runs: The folds and the operations that they need.
      assigned: Operations of the variables that `runs` assigns.
    """

    done: list[Operation]
    runs: set[Operation]
    assigned: set[Operation]


class FoldSearch:
    """Search for folds in one tower that has been built."""

    def __init__(
        self,
        operations: Collection[Operation],
        batch: Iterable[Tensor],
        ends: Sequence[Operation],
    ):
        """Prepares the search.

        Args:
          operations: All operations of the tower.
          batch: Tensors of its shard.
          ends: Operations that end the tower's losses and gradients. They run in every step.
        """
        self._operations = operations
        self._within = set(operations)
        self._batch = {tensor.op for tensor in batch}
        self._within_or_batch = self._within | self._batch
        self._ends = ends
        self._assignments = Assignments(v1.get_default_graph())

    def find(
        self,
        listed: list[Operation],
        unlisted: Collection[Operation],
        asked_for: Collection[Operation],
    ) -> TowerFolds:
        """Finds all folds.

        Args:
          listed: Folds in UPDATE_OPS.
          unlisted: Operations of variables whose assignments are folds even if they are in no
            collection and nothing waits for them.
          asked_for: Operations of variables whose assignments are folds only if they are in
            UPDATE_OPS or the tower's ends wait for them.
        """
        reached = _ancestors(listed, self._within)
        found: list[Operation] = []
        done = list(listed)
        for operation in self._operations:
            targets = self._assignments.assigned_by(operation)
            is_unlisted = any(target in unlisted for target in targets)
            if not is_unlisted and not any(target in asked_for for target in targets):
                continue
            if operation in reached:
                continue
            after = self._done_after(operation, is_unlisted)
            if after:
                found.append(operation)
                done += [each for each in after if each not in done]
        runs = reached | _ancestors(found, self._within, _assigned_before)
        assigned = {target for each in runs for target in self._assignments.assigned_by(each)}
        return TowerFolds(done, runs, assigned)

    def _done_after(self, operation: Operation, is_unlisted: bool) -> Sequence[Operation]:
        """Returns the operations after which an assignment has run; none if it is no fold."""
        is_awaited = operation in self._awaited
        if self._assignments.is_in_branch(operation):
            return self._ends if is_awaited else []
        is_fold = is_awaited or (is_unlisted and self._depends_on_batch(operation))
        return [operation] if is_fold else []

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
    """Returns the operations and all operations in `within` that they need.

    Args:
      operations: Operations to start from.
      within: Operations to search. The search does not pass through others.
      control: Returns the control dependencies of an operation that the search follows.
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
