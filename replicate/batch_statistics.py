"""Running statistics of the batch (batch normalization's moving averages) over several towers.

Each tower sees its own shard and would push the shared moving averages its own way. Here the
towers after the first keep a copy of every such variable, let their update operations write to the
copy, and once a step the copies and the shared variable are brought together. Where a step is
skipped, what it did to them is taken back.

Update operations are those in UPDATE_OPS, and assignments of values computed from the batch that
are in no collection: those of Keras layers, and those that the loss or the gradients wait for,
as of layers with `updates_collections=None`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from model_deploy.local_variables import on_task
from replicate._types import Operation, Tensor, Variable
from replicate.arguments import check_choice
from replicate.update_search import UpdateSearch
from replicate.variable_copies import VariableCopies, assign_all, read_all
from replicate.variables_in_turn import VariablesInTurn

v1 = tf.compat.v1

UpdateOps: TypeAlias = Literal["first", "all", "mean"]
"""Whose update operations count: the first tower's, each one's in turn, or the mean of all."""


class BatchStatistics:
    """The update operations of the towers of one replicated call."""

    def __init__(self, update_ops: UpdateOps):
        """Begins with no tower.

        Args:
          update_ops: "mean" sets each statistic to the mean of what the towers' updates make of it,
            weighted by their rows (a count, to what the first tower's make of it); "first" to what
            the first tower's make of it; "all" lets every tower update the shared variable itself,
            one after the other.

        Raises:
          ValueError: `update_ops` is none of these.
        """
        check_choice("update_ops", update_ops, UpdateOps)
        self._update_ops = update_ops
        self._updates: list[list[Operation]] = []
        self._weights: list[Tensor] = []
        self._cast_weights: dict[tf.DType, list[Tensor]] = {}
        self._statistics: list[Variable] = []
        """The shared variables that the updates write to."""
        self._copies: dict[Any, list[Variable]] = {}
        """Reference of each statistic → its copies, in the order of the towers."""
        self._maker = VariableCopies()
        self._in_turn = VariablesInTurn()

    def record(
        self,
        operations: Collection[Operation],
        in_collection: Iterable[Any],
        batch: Collection[Tensor],
        unlisted: Iterable[Variable],
        asked_for: Iterable[Variable],
        ends: Sequence[Operation],
        weight: Tensor,
    ) -> None:
        """Takes note of the updates of a tower that has been built; towers come in order.

        Args:
          operations: All operations of the tower.
          in_collection: What it added to UPDATE_OPS.
          batch: The tensors of its shard.
          unlisted: Variables whose assignments run though they may be in no collection and nothing
            waits for them.
          asked_for: Other variables of the tower.
          ends: The ends of the tower's losses and gradients.
          weight: Rows of the shard ÷ rows of the batch.
        """
        updates = UpdateSearch(operations, batch, ends).updates(
            [entry if isinstance(entry, tf.Operation) else entry.op for entry in in_collection],
            self._operations_of(unlisted),
            self._operations_of(asked_for),
        )
        if not self._updates:
            self._statistics = [
                variable
                for variable in v1.global_variables()
                if variable.op in updates.assigned and not variable.trainable
            ]
            self._copies = {variable.ref(): [] for variable in self._statistics}
        self._updates.append(updates.done)
        self._weights.append(weight)
        if self._update_ops == "all":
            self._in_turn.record(self._statistics, updates.runs, updates.done)

    def substitute(
        self, device: str, suspended: Callable[[], Any]
    ) -> Callable[[Variable], Variable]:
        """Returns the function that gives the next tower its own copy, or view, of a statistic.

        Args:
          device: The tower's device.
          suspended: Makes the context in which variables are made outside of towers.
        """
        made: dict[Any, Variable] = {}

        def own(variable: Variable) -> Variable:
            reference = variable.ref()
            if reference not in self._copies:
                return variable
            if self._update_ops == "all":
                if reference not in made:
                    with suspended():
                        made[reference] = self._in_turn.view(variable)
                return made[reference]
            if not made:
                with suspended():
                    copies = self._maker.on(device, self._statistics, "tower")
                for statistic, copy in zip(self._statistics, copies, strict=True):
                    made[statistic.ref()] = copy
                    self._copies[statistic.ref()].append(copy)
            return made[reference]

        return own

    def merged(self, skipped: Sequence[Tensor] = (), task: str = "") -> Operation | None:
        """Returns the operation that runs all updates and brings the copies together, if any.

        Args:
          skipped: Boolean scalars. In a step in which one of them is true, the statistics are
            set back to what they were before it.
          task: Job and task that keep what they were before; "" where the scopes name none.
        """
        updates = [update for tower in self._updates for update in tower]
        if not updates:
            return None
        with v1.name_scope("batch_statistics"):
            updated = v1.group(*updates)
            is_skipped = tf.reduce_any(tf.stack(skipped)) if skipped else None
            packs = [self._in_towers(pack) for pack in self._packs()]
            packs = [pack for pack in packs if len(pack) > 1 or skipped]
            with v1.control_dependencies([updated]):
                values = self._read(packs)
            assigned = [
                assignment
                for pack in packs
                for assignment in self._settled(pack, values, is_skipped, task)
            ]
            return v1.group(updated, *assign_all(assigned), name="update")

    def _packs(self) -> list[list[Variable]]:
        """Statistics of the same type and shape on the same device, which are treated as one."""
        packs: dict[Any, list[Variable]] = {}
        for variable in self._statistics:
            shape = variable.shape
            key = tuple(shape.as_list()) if shape.is_fully_defined() else variable.ref()
            packs.setdefault((key, variable.dtype, variable.device), []).append(variable)
        return list(packs.values())

    def _in_towers(self, pack: Sequence[Variable]) -> list[tuple[Variable, ...]]:
        """Some statistics as each tower has them: the shared variables, and then the copies."""
        copies = zip(*(self._copies[variable.ref()] for variable in pack), strict=True)
        return [tuple(pack), *copies]

    def _counted(self, towers: Sequence[tuple[Variable, ...]]) -> Sequence[tuple[Variable, ...]]:
        """What comes of the updates is the mean of these."""
        is_mean = self._update_ops == "mean" and towers[0][0].dtype.is_floating
        return towers if is_mean else towers[:1]

    def _read(self, packs: Iterable[Sequence[tuple[Variable, ...]]]) -> dict[Any, Tensor]:
        """Reads what counts: by the variables' references."""
        variables = [
            variable for towers in packs for tower in self._counted(towers) for variable in tower
        ]
        values = read_all(variables)
        return {variable.ref(): value for variable, value in zip(variables, values, strict=True)}

    def _settled(
        self,
        towers: Sequence[tuple[Variable, ...]],
        read: Mapping[Any, Tensor],
        skipped: Tensor | None,
        task: str,
    ) -> list[tuple[Variable, Tensor]]:
        """Returns what comes of an update to some statistics and their copies, to be assigned."""
        values = [_stacked(variables, read) for variables in self._counted(towers)]
        settled: list[tuple[Variable, Tensor]] = []
        with v1.device(towers[0][0].device):
            value = self._weighted_sum(values) if len(values) > 1 else values[0]
            if skipped is not None:
                device = on_task(task, towers[0][0].device)
                last = self._maker.packed(device, towers[0], "batch_statistics/last")
                value = tf.where(skipped, last.read_value(), value)
                settled.append((last, value))
        changed = towers if len(values) > 1 or skipped is not None else towers[1:]
        for variables in changed:
            settled += zip(variables, _parts(variables, value), strict=True)
        return settled

    def _weighted_sum(self, values: Sequence[Tensor]) -> Tensor:
        weighted = []
        for value, weight in zip(values, self._weights_as(values[0].dtype), strict=True):
            with v1.device(value.device):
                # An empty shard's value, which may be NaN, counts as zero.
                weighted.append(tf.math.multiply_no_nan(value, weight))
        return v1.add_n(weighted)

    def _weights_as(self, dtype: tf.DType) -> list[Tensor]:
        if dtype not in self._cast_weights:
            self._cast_weights[dtype] = [tf.cast(weight, dtype) for weight in self._weights]
        return self._cast_weights[dtype]

    def _operations_of(self, variables: Iterable[Variable]) -> set[Operation]:
        """Operations that stand for the variables, and for copies and views of them."""
        owned: set[Operation] = set()
        for variable in variables:
            if not variable.trainable:
                owned.update(each.op for each in (variable, *self._copies.get(variable.ref(), [])))
                owned.update(self._in_turn.operations_of(variable))
        return owned


def _stacked(variables: Sequence[Variable], read: Mapping[Any, Tensor]) -> Tensor:
    """Values of variables of one shape and device, where these are: [variables, ...]."""
    with v1.device(variables[0].device):
        return tf.stack([read[variable.ref()] for variable in variables])


def _parts(variables: Sequence[Variable], values: Tensor) -> list[Tensor]:
    """What lies along the first axis of `values`, where variables of one device are."""
    with v1.device(variables[0].device):
        return list(tf.unstack(values, num=len(variables)))
