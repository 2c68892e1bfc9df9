"""Running statistics of the batch (batch normalization's moving averages) over several towers.

Each tower sees its own shard and would push the shared moving averages its own way. Here the
towers after the first keep a copy of every such variable, let their update operations write to the
copy, and once a step the copies and the shared variable are brought together. Where a step is
skipped, what it did to them is taken back.

Update operations are those in UPDATE_OPS, and assignments of values computed from the batch that
are in no collection, which is how Keras layers make theirs.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.arguments import check_choice

v1 = tf.compat.v1

UpdateOps: TypeAlias = Literal["first", "all", "mean"]
"""Whose update operations count: the first tower's, each one's in turn, or the mean of all."""

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


class BatchStatistics:
    """The update operations of the towers of one replicated call."""

    def __init__(self, update_ops: UpdateOps):
        """Begins with no tower.

        Args:
          update_ops: "mean" sets each statistic to the mean of what the towers' updates make of it,
            weighted by their rows (a count, to what the first tower's make of it); "first" to what
            the first tower's make of it; "all" lets every tower update the shared variable itself,
            in no particular order.

        Raises:
          ValueError: `update_ops` is none of these.
        """
        check_choice("update_ops", update_ops, UpdateOps)
        self._update_ops = update_ops
        self._updates: list[list[Operation]] = []
        self._weights: list[Tensor] = []
        self._cast_weights: dict[tf.DType, list[Tensor]] = {}
        self._copies: dict[Any, list[Variable]] = {}
        """Reference of each shared statistic → its copies, in the order of the towers."""
        self._statistics: list[Variable] = []
        """The shared variables that the updates write to."""
        self._begin: dict[Any, Tensor] = {}
        """Reference of a shared statistic → what copies of it begin as, where there are any."""

    def record(
        self,
        operations: Collection[Operation],
        in_collection: Iterable[Any],
        batch: Collection[Tensor],
        unlisted: Iterable[Variable],
        weight: Tensor,
    ) -> None:
        """Takes note of the updates of a tower that has been built; towers come in order.

        Args:
          operations: All operations of the tower.
          in_collection: What it added to UPDATE_OPS.
          batch: The tensors of its shard.
          unlisted: Variables whose assignments may be in no collection.
          weight: Rows of the shard ÷ rows of the batch.
        """
        explicit = [
            entry if isinstance(entry, tf.Operation) else entry.op for entry in in_collection
        ]
        within = set(operations)
        reached = _ancestors(explicit, within)
        unlisted_ops = self._operations_of(unlisted)
        hidden = [
            operation
            for operation in operations
            if operation.type in ASSIGNMENTS
            and operation not in reached
            and operation.inputs[0].op in unlisted_ops
            and _depends_on_batch(operation, batch, within)
        ]
        if not self._updates:
            targets = {op.inputs[0].op for op in reached | set(hidden) if op.type in ASSIGNMENTS}
            self._statistics = [
                variable
                for variable in v1.global_variables()
                if variable.op in targets and not variable.trainable
            ]
            if self._update_ops != "all":
                self._copies = {variable.ref(): [] for variable in self._statistics}
        self._updates.append(explicit + hidden)
        self._weights.append(weight)

    def substitute(
        self, device: str, suspended: Callable[[], Any]
    ) -> Callable[[Variable], Variable]:
        """Returns the function that gives the next tower its own copy of a statistic.

        Args:
          device: The tower's device.
          suspended: Makes the context in which variables are made outside of towers.
        """
        made: dict[Any, Variable] = {}

        def own(variable: Variable) -> Variable:
            if variable.ref() not in self._copies:
                return variable
            if variable.ref() not in made:
                with suspended():
                    made[variable.ref()] = self._local_copy(variable, device, "tower")
                self._copies[variable.ref()].append(made[variable.ref()])
            return made[variable.ref()]

        return own

    def merged(self, skipped: Sequence[Tensor] = ()) -> Operation | None:
        """Returns the operation that runs all updates and brings the copies together, if any.

        Args:
          skipped: Boolean scalars. In a step in which one of them is true, the statistics are
            set back to what they were before it.
        """
        updates = [update for tower in self._updates for update in tower]
        if not updates:
            return None
        shared = {ref: copies for ref, copies in self._copies.items() if copies}
        with v1.name_scope("batch_statistics"), v1.control_dependencies([v1.group(*updates)]):
            values = {
                ref: self._merged_value(ref.deref(), copies) for ref, copies in shared.items()
            }
            with v1.control_dependencies([v1.group(*values.values())]):
                update = v1.group(
                    *(
                        v1.assign(variable, values[ref])
                        for ref, copies in shared.items()
                        for variable in (ref.deref(), *copies)
                    ),
                    name="update",
                )
            if not skipped:
                return update
            with v1.control_dependencies([update]):
                return self._kept_unless(tf.reduce_any(tf.stack(skipped)))

    def _kept_unless(self, skipped: Tensor) -> Operation:
        """Returns the operation that makes the new statistics last, or the last ones new again."""
        assignments = []
        for variable in self._statistics:
            last = self._local_copy(variable, variable.device, "last")
            value = tf.where(skipped, last.read_value(), variable.read_value())
            everywhere = [variable, last, *self._copies.get(variable.ref(), [])]
            with v1.control_dependencies([value]):
                assignments += [v1.assign(each, value) for each in everywhere]
        return v1.group(*assignments, name="keep")

    def _merged_value(self, variable: Variable, copies: Sequence[Variable]) -> Tensor:
        if self._update_ops == "first" or not variable.dtype.is_floating:
            return tf.identity(variable.read_value())
        weights = self._weights_as(variable.dtype.base_dtype)
        return v1.add_n(
            [
                # An empty shard's value, which may be NaN, counts as zero.
                tf.math.multiply_no_nan(part.read_value(), weight)
                for part, weight in zip((variable, *copies), weights, strict=True)
            ]
        )

    def _weights_as(self, dtype: tf.DType) -> list[Tensor]:
        if dtype not in self._cast_weights:
            self._cast_weights[dtype] = [tf.cast(weight, dtype) for weight in self._weights]
        return self._cast_weights[dtype]

    def _local_copy(self, variable: Variable, device: str, name: str) -> Variable:
        """Makes a variable of this process alone, on a device, that begins as the other one is."""
        with v1.control_dependencies(None):
            if variable.ref() not in self._begin:
                with v1.device(variable.device), v1.name_scope("begin"):
                    self._begin[variable.ref()] = _value_or_initial(variable)
            with v1.device(device):
                return v1.Variable(
                    self._begin[variable.ref()],
                    trainable=False,
                    collections=[v1.GraphKeys.LOCAL_VARIABLES],
                    name=f"{variable.op.name}/{name}",
                    use_resource=True,
                )

    def _operations_of(self, variables: Iterable[Variable]) -> set[Operation]:
        """Operations that stand for the variables, and for the copies of them."""
        owned: set[Operation] = set()
        for variable in variables:
            if not variable.trainable:
                owned.update(each.op for each in (variable, *self._copies.get(variable.ref(), [])))
        return owned


def _value_or_initial(variable: Variable) -> Tensor:
    """The value of a variable, or what it is initialised to where that has not happened yet.

    One dead branch in place of `tf.cond`, which takes 20 times as long to build.
    """
    is_set = v1.is_variable_initialized(variable)
    initial, _ = tf.raw_ops.Switch(data=variable.initial_value, pred=is_set)
    _, chosen = tf.raw_ops.Switch(data=is_set, pred=is_set)
    with v1.control_dependencies([tf.identity(chosen)]):
        # What is read of a reference variable is its memory, which its updates write to.
        value = tf.raw_ops.DeepCopy(x=variable.read_value())
    return tf.raw_ops.Merge(inputs=[initial, value]).output


def _depends_on_batch(
    operation: Operation, batch: Iterable[Tensor], within: Collection[Operation]
) -> bool:
    sources = {tensor.op for tensor in batch}
    values = [tensor.op for tensor in operation.inputs[1:]]
    return not sources.isdisjoint(_ancestors(values, {*within, *sources}, control=False))


def _ancestors(
    operations: Iterable[Operation], within: Collection[Operation], control: bool = True
) -> set[Operation]:
    """The operations and all that they need, as far as it lies `within`."""
    found: set[Operation] = set()
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation in found or operation not in within:
            continue
        found.add(operation)
        pending += [tensor.op for tensor in operation.inputs]
        if control:
            pending += operation.control_inputs
    return found
