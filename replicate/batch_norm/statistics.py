"""Running statistics of the batch (batch normalization's moving averages) over several towers.

Each tower sees only its own shard, so it folds other values into the shared moving averages than
other towers do. Each tower after the first therefore folds into its own copy of these variables.
Once a step the copies and the shared variables are merged. A skipped step restores the previous
values.

The folds are the operations in UPDATE_OPS, and assignments in no collection: those of Keras layers,
of values computed from the batch, and those that the loss or the gradients wait for, such as those
of layers with `updates_collections=None`, of counters and of averages of weights. Where all towers
assign the same, each does so to its own copy, and the variable changes once a step.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from model_deploy.devices import CPU
from model_deploy.local_variables import on_task
from replicate._types import Operation, Tensor, Variable
from replicate.batch.nests import flatten
from replicate.batch.split import Shard
from replicate.batch_norm.folds import FoldSearch
from replicate.batch_norm.variable_copies import VariableCopies, assign_all, read_all
from replicate.batch_norm.variables_in_turn import VariablesInTurn
from replicate.calling import check_choice
from replicate.protocols import Workers
from replicate.tower.scopes import TowerScopes

v1 = tf.compat.v1

_STATISTICS = ("replicate", "batch_statistics")
"""Key of the collection of a graph's statistics, each with the copies of further towers. Not a
string: never exported."""

UpdateOps: TypeAlias = Literal["first", "all", "mean"]
"""Towers whose updates count: the first one, all in turn, or the mean of all."""


class BatchStatistics:
    """The folds of the towers of one replicated call, and the statistics that they change."""

    def __init__(self, update_ops: UpdateOps):
        """Starts with no tower.

        Args:
          update_ops: "mean" sets each statistic to the mean of the towers' updated values, weighted
            by their rows (an integer statistic to the first tower's value); "first" sets it to the
            first tower's value; "all" lets every tower update the shared variable, one after the
            other.

        Raises:
          ValueError: `update_ops` has another value.
        """
        check_choice("update_ops", update_ops, UpdateOps)
        self._update_ops = update_ops
        self._folds: list[list[Operation]] = []
        self._weights: list[Tensor] = []
        self._cast_weights: dict[tf.DType, list[Tensor]] = {}
        self._statistics: list[Variable] = []
        """Shared variables that the folds assign."""
        self._copies: dict[Any, list[Variable]] = {}
        """Reference of each statistic → its copies, in the order of the towers."""
        self._maker = VariableCopies()
        self._in_turn = VariablesInTurn()

    @contextlib.contextmanager
    def tower(self, scopes: TowerScopes, index: int, shard: Shard) -> Iterator[None]:
        """Enters the scopes of the next tower, with its own statistics, and records its folds."""
        substitute = self._substitute(scopes, index) if index else None
        with scopes.tower(index, shard.weight, substitute):
            graph = v1.get_default_graph()
            before = len(graph.get_operations())
            yield
            self._record(scopes, index, shard, graph.get_operations()[before:])

    def _record(
        self, scopes: TowerScopes, index: int, shard: Shard, operations: Sequence[Operation]
    ) -> None:
        """Records the folds of a tower that has been built."""
        leaves = flatten((shard.features, shard.labels), expand_composites=True)
        batch = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
        listed = scopes.collections.of_tower(v1.GraphKeys.UPDATE_OPS)
        folds = FoldSearch(operations, batch, scopes.build.ends(index)).find(
            [entry if isinstance(entry, tf.Operation) else entry.op for entry in listed],
            self._operations_of(scopes.variables.made),
            self._operations_of(scopes.variables.got),
        )
        if not self._folds:
            self._statistics = [
                variable
                for variable in v1.global_variables()
                if variable.op in folds.assigned and not variable.trainable
            ]
            self._copies = {variable.ref(): [] for variable in self._statistics}
        self._folds.append(folds.done)
        self._weights.append(shard.weight)
        if self._update_ops == "all":
            self._in_turn.record(self._statistics, folds.runs, folds.done)

    def _substitute(self, scopes: TowerScopes, index: int) -> Callable[[Variable], Variable]:
        """Returns a function from a statistic to a tower's own copy or view of it."""
        made: dict[Any, Variable] = {}

        def own(variable: Variable) -> Variable:
            reference = variable.ref()
            if reference not in self._copies:
                return variable
            if self._update_ops == "all":
                if reference not in made:
                    with scopes.variables.suspended():
                        made[reference] = self._in_turn.view(variable)
                return made[reference]
            if not made:
                with scopes.variables.suspended():
                    copies = self._maker.on(scopes.build.device(index), self._statistics, "tower")
                for statistic, copy in zip(self._statistics, copies, strict=True):
                    made[statistic.ref()] = copy
                    self._copies[statistic.ref()].append(copy)
            return made[reference]

        return own

    def merged(
        self,
        skipped: Sequence[Tensor] = (),
        task: str = "",
        workers: Workers | None = None,
        after: Sequence[Operation] = (),
    ) -> Operation | None:
        """Returns the operation that runs all folds and merges the copies; None without folds.

        With several workers, a statistic becomes the mean of the workers' values, weighted by their
        rows; with "first", and for integers, the value of the chief's first tower.

        Args:
          skipped: Boolean scalars. If any of them is True, the statistics get back the values that
            they had before the step.
          task: Job and task that store these values; "" if the device scopes name none.
          workers: Other workers whose folds count; None for this process alone.
          after: Operations after which workers send their statistics.
        """
        folds = [fold for tower in self._folds for fold in tower]
        if not folds:
            return None
        v1.get_collection_ref(_STATISTICS).extend(
            (variable, self._copies[variable.ref()]) for variable in self._statistics
        )
        with v1.name_scope("batch_statistics"):
            with v1.device(CPU):
                folded = v1.group(*folds)
                is_skipped = tf.reduce_any(tf.stack(skipped)) if skipped else None
            packs = [self._in_towers(pack) for pack in self._packs()]
            packs = [pack for pack in packs if len(pack) > 1 or skipped or workers]
            with v1.control_dependencies([folded, *(after if workers else ())]):
                read = self._read(packs)
            values = [self._mean_over_towers(pack, read) for pack in packs]
            if workers is not None:
                values = self._over_workers(values, workers)
            assigned = [
                assignment
                for pack, value in zip(packs, values, strict=True)
                for assignment in self._assigned(pack, value, is_skipped, task, bool(workers))
            ]
            assignments = assign_all(assigned)
            with v1.device(CPU):
                return v1.group(folded, *assignments, name="update")

    def _packs(self) -> list[list[Variable]]:
        """Groups statistics of one type, shape and device, which are merged together."""
        packs: dict[Any, list[Variable]] = {}
        for variable in self._statistics:
            shape = variable.shape
            key = tuple(shape.as_list()) if shape.is_fully_defined() else variable.ref()
            packs.setdefault((key, variable.dtype, variable.device), []).append(variable)
        return list(packs.values())

    def _in_towers(self, pack: Sequence[Variable]) -> list[tuple[Variable, ...]]:
        """Returns a pack's variables for each tower: shared variables first, then the copies."""
        copies = zip(*(self._copies[variable.ref()] for variable in pack), strict=True)
        return [tuple(pack), *copies]

    def _averaged(self, towers: Sequence[tuple[Variable, ...]]) -> Sequence[tuple[Variable, ...]]:
        """Selects the towers whose variables are averaged."""
        is_mean = self._update_ops == "mean" and towers[0][0].dtype.is_floating
        return towers if is_mean else towers[:1]

    def _read(self, packs: Iterable[Sequence[tuple[Variable, ...]]]) -> dict[Any, Tensor]:
        """Reads the variables that are averaged. Returns values by the variables' references."""
        variables = [
            variable for towers in packs for tower in self._averaged(towers) for variable in tower
        ]
        values = read_all(variables)
        return {variable.ref(): value for variable, value in zip(variables, values, strict=True)}

    def _mean_over_towers(
        self, towers: Sequence[tuple[Variable, ...]], read: Mapping[Any, Tensor]
    ) -> Tensor:
        """Returns the merged values of a pack: [variables, ...]."""
        values = [_stacked(variables, read) for variables in self._averaged(towers)]
        with v1.device(towers[0][0].device):
            return self._weighted_sum(values) if len(values) > 1 else values[0]

    def _over_workers(self, values: Sequence[Tensor], workers: Workers) -> list[Tensor]:
        """Returns the values of packs, each merged over workers."""
        is_mean = [self._update_ops != "first" and value.dtype.is_floating for value in values]
        means = iter(workers.mean([v for v, mean in zip(values, is_mean, strict=True) if mean]))
        others = [v for v, mean in zip(values, is_mean, strict=True) if not mean]
        of_chief = iter(workers.of_chief(others))
        return [next(means) if mean else next(of_chief) for mean in is_mean]

    def _assigned(
        self,
        towers: Sequence[tuple[Variable, ...]],
        value: Tensor,
        skipped: Tensor | None,
        task: str,
        has_workers: bool,
    ) -> list[tuple[Variable, Tensor]]:
        """Returns (variable, value) pairs to assign to the variables of a pack."""
        merged: list[tuple[Variable, Tensor]] = []
        with v1.device(towers[0][0].device):
            if skipped is not None:
                device = on_task(task, towers[0][0].device)
                last = self._maker.packed(device, towers[0], "batch_statistics/last")
                value = tf.where(skipped, last.read_value(), value)
                merged.append((last, value))
        is_mean = len(self._averaged(towers)) > 1
        changed = towers if is_mean or skipped is not None or has_workers else towers[1:]
        for variables in changed:
            merged += zip(variables, _parts(variables, value), strict=True)
        return merged

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
        """Returns the operations of the variables, their copies and their views."""
        owned: set[Operation] = set()
        for variable in variables:
            if not variable.trainable:
                owned.update(each.op for each in (variable, *self._copies.get(variable.ref(), [])))
                owned.update(self._in_turn.operations_of(variable))
        return owned


def batch_statistics() -> list[tuple[Variable, list[Variable]]]:
    """Returns the statistics of batches of the default graph, which models without towers lack.

    Returns:
      Variables, each with its copies for further towers, which are to change with it.
    """
    return list({each.ref(): (each, own) for each, own in v1.get_collection(_STATISTICS)}.values())


def _stacked(variables: Sequence[Variable], read: Mapping[Any, Tensor]) -> Tensor:
    """Stacks values of variables of one shape on their device: [variables, ...]."""
    with v1.device(variables[0].device):
        return tf.stack([read[variable.ref()] for variable in variables])


def _parts(variables: Sequence[Variable], values: Tensor) -> list[Tensor]:
    """Splits values along the first axis, on the device of the variables."""
    with v1.device(variables[0].device):
        return list(tf.unstack(values, num=len(variables)))
