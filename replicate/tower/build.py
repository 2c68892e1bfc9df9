"""Towers: copies of a `model_fn`, one per device, while they are being built.

`TowerContext` tells a `model_fn` about the tower that it builds. `TowerBuild` is the state of one
replicated call: variables that the towers share, scales of their losses, and the gradients that
`TowerOptimizer` collects. It is attached to the graph while the towers are being built, and removed
afterwards, also after an error.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from model_deploy import DevicePlan, GradientReduction, SharedVariables, VariablePlacer
from model_deploy.devices import VARIABLE_OPS, completed
from model_deploy.local_variables import current_task, local_variables_on
from model_deploy.xla import compiled_by_xla, uncompiled
from replicate._types import Device, Gradient, Nest, Operation, Tensor, Variable
from replicate.batch.nests import flatten
from replicate.batch_norm.statistics import BatchStatistics
from replicate.graph_ops.finite import Watched
from replicate.protocols import PART_OF_LOSS
from replicate.tower.collections import Summaries, TowerCollections
from replicate.tower.shares import UNWEIGHTED, GradientShare, share_of

v1 = tf.compat.v1

COLLECTION = "replicate_model_fn_tower_build"
REDUCED_GRADIENTS = ("replicate", "reduced_gradients")
"""Key of the (gradient, variable) pairs of the whole batch, for all TowerOptimizers of a graph.

Not a string, so that an exported MetaGraph does not contain the collection.
"""


@dataclasses.dataclass(frozen=True)
class TowerContext:
    """The tower that a `model_fn` is building.

    Attributes:
      index: Number of the tower, from 0.
      count: Number of towers.
      device: Device of the tower.
    """

    index: int
    count: int
    device: str

    @property
    def is_first(self) -> bool:
        """True for the tower that makes the variables and gives them their names."""
        return self.index == 0

    @property
    def is_last(self) -> bool:
        """True for the tower in which gradients are summed and applied."""
        return self.index == self.count - 1

    @property
    def label(self) -> str:
        """Name of this tower in errors."""
        return f"tower {self.index} ({self.device})"


@dataclasses.dataclass(frozen=True)
class TowerGradients:
    """Gradients that one tower passed to one call of `apply_gradients`.

    Attributes:
      gradients_and_variables: The pairs.
      watched: Losses and gradients that are checked to be finite.
      done: Operation that ends this tower's part of the step.
      variable_scope: Variable scope of the call.
      name_scope: Name scope of the call.
      device: Device of the tower, with its task; "" without towers.
    """

    gradients_and_variables: list[tuple[Gradient | None, Variable]]
    watched: list[Watched]
    done: Operation
    variable_scope: Any
    name_scope: str
    device: Device = ""


class TowerBuild:
    """State of one replicated `model_fn` call, from its first tower to its last."""

    def __init__(
        self,
        plan: DevicePlan,
        averages_loss: bool,
        statistics: BatchStatistics | None = None,
        summaries: Summaries = "first",
        xla: bool = False,
        reduction: GradientReduction = "last",
    ):
        """Makes the state for one call.

        Args:
          plan: Devices of towers and variables.
          averages_loss: True if a tower's loss is a mean over its shard, which is weighted by its
            share of the batch. False if losses are summed.
          statistics: Merges the towers' update operations; None if they do not run.
          summaries: Towers whose summaries are kept.
          xla: True to compile the towers with XLA.
          reduction: Way by which the towers' gradients are summed.
        """
        self.plan = plan
        self.reduction = reduction
        self.collections = TowerCollections("every" if averages_loss else "first", summaries)
        self.tower: TowerContext | None = None
        self.calls: list[list[TowerGradients]] = [[] for _ in plan.towers]
        """For each tower, the gradients of its calls of `apply_gradients`, in order."""
        self.skipped: list[Tensor] = []
        """For each update that may be skipped: True if it was, a boolean scalar known after it."""
        self.task = current_task()
        """Job and task of the worker, from the device scopes around the towers; "" if none."""
        self.averages_loss = averages_loss
        self._statistics = statistics
        self._xla = xla
        self._shared: list[Any] = []
        self._shared_taken = [0] * len(plan.towers)
        self._placer = VariablePlacer(plan.parameters)
        self._variables = SharedVariables()
        self._weight: Tensor = 1.0
        self._losses: list[Tensor] = []
        """The losses of the current tower."""
        self._variable_scope = v1.get_variable_scope()
        self._name_scope = v1.get_default_graph().get_name_scope()

    @contextlib.contextmanager
    def building(self, index: int, weight: Tensor, batch: Nest = None) -> Iterator[TowerContext]:
        """Enters the scopes of a tower: its device, names and shared variables.

        Args:
          index: Number of the tower. Towers are built in order.
          weight: Rows of the tower's shard ÷ rows of the batch: a float if it is that of all
            towers, else a Tensor.
          batch: The tower's shard.
        """
        device = self.plan.towers[index]
        self.tower = TowerContext(index, len(self.plan.towers), device)
        self._weight = weight
        self._losses = []
        names = v1.name_scope(f"tower_{index}") if index else contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, self, "tower", None)
            stack.enter_context(names)
            stack.enter_context(v1.device(self._placer.on(device)))
            stack.enter_context(
                self._variables.copy(
                    index, self.tower.label, substitute=self._substitute(self.tower)
                )
            )
            stack.enter_context(self.collections.tower(index))
            stack.enter_context(_in_collection(PART_OF_LOSS, self.part_of_loss))
            if self._xla:
                stack.enter_context(compiled_by_xla())
            with self._recording(batch):
                yield self.tower

    def _substitute(self, tower: TowerContext) -> Callable[[Variable], Variable] | None:
        if self._statistics is None or tower.is_first:
            return None
        device = completed(tower.device, self.task)
        return self._statistics.substitute(device, self._variables.suspended)

    @contextlib.contextmanager
    def _recording(self, batch: Nest) -> Iterator[None]:
        """Records the update operations of the tower that is built inside."""
        graph = v1.get_default_graph()
        before = len(graph.get_operations())
        yield
        if self._statistics is not None and self.tower is not None:
            gradients = [part.done for part in self.calls[self.tower.index]]
            self._statistics.record(
                graph.get_operations()[before:],
                self.collections.of_tower(v1.GraphKeys.UPDATE_OPS),
                [
                    leaf
                    for leaf in flatten(batch, expand_composites=True)
                    if isinstance(leaf, tf.Tensor)
                ],
                self._variables.made,
                self._variables.got,
                [*(loss.op for loss in self._losses), *gradients],
                self._weight,
            )

    def add_loss(self, loss: Tensor) -> None:
        """Notes a loss of the current tower, before it is weighted."""
        self._losses.append(loss)

    def part_of_loss(self, loss: Tensor) -> Tensor:
        """Returns the current tower's part of the whole batch's loss."""
        return self.share(loss, "averaged_loss")

    def share(self, value: Tensor, name: str) -> Tensor:
        """Returns a loss or gradient of the current tower, weighted by its share of the batch.

        Args:
          value: Loss or gradient of any shape.
          name: Name of the operation.
        """
        return share_of(value, self.gradient_share.share, name)

    @property
    def gradient_share(self) -> GradientShare:
        """Share of the batch by which the current tower's gradients count."""
        if self.tower is None or self.tower.count == 1 or not self.averages_loss:
            return UNWEIGHTED
        return GradientShare(self._weight)

    def shared(self, make: Callable[[], Any]) -> Any:
        """Returns the next shared object. The n-th call in each tower returns the same object.

        Args:
          make: Makes the object. Called by the first tower that asks, outside of towers.
        """
        index = self.tower.index if self.tower else 0
        position = self._shared_taken[index]
        self._shared_taken[index] += 1
        if position == len(self._shared):
            with self.outside_towers():
                self._shared.append(make())
        return self._shared[position]

    @contextlib.contextmanager
    def outside_towers(self, first: TowerGradients | None = None) -> Iterator[None]:
        """Leaves the tower's device, names and variable sharing, to build objects that exist once.

        Variables are still placed on the parameter devices: in a cluster, in turn on the tasks of
        the trainable variables. Everything else is placed on the worker, also local variables.
        Control dependencies stay.

        Args:
          first: Call of the first tower whose scopes are entered, so that variables have the same
            names as without replication. None: the scopes around all towers.
        """
        variable_scope = first.variable_scope if first else self._variable_scope
        name_scope = first.name_scope if first else self._name_scope
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._variables.suspended())
            stack.enter_context(self.collections.outside())
            if self._xla:
                stack.enter_context(uncompiled())
            stack.enter_context(v1.variable_scope(variable_scope, auxiliary_name_scope=False))
            stack.enter_context(v1.name_scope(f"{name_scope}/" if name_scope else None))
            stack.enter_context(v1.device(None))
            stack.enter_context(v1.device(self.task))
            stack.enter_context(v1.device(_tasks_of(v1.trainable_variables())))
            stack.enter_context(v1.device(self._placer.on("")))
            yield


@contextlib.contextmanager
def _in_collection(key: Any, entry: Any) -> Iterator[None]:
    """Adds an entry to a collection of the current graph while inside the context."""
    entries = v1.get_collection_ref(key)
    entries.append(entry)
    try:
        yield
    finally:
        entries.remove(entry)


def _tasks_of(variables: Sequence[Variable]) -> Callable[[Operation], str]:
    """Returns a device function that places variables in turn on the tasks of other variables.

    It replaces the device scope around the towers, which TensorFlow does not reveal.
    """
    specs = (tf.DeviceSpec.from_string(variable.device or "") for variable in variables)
    tasks = {tf.DeviceSpec(job=spec.job, task=spec.task) for spec in specs if spec.job}
    turns = itertools.cycle(sorted(task.to_string() for task in tasks))

    def place(operation: Operation) -> str:
        device = str(operation.device)
        if not tasks or operation.type not in VARIABLE_OPS or "/job:" in device:
            return device
        return completed(device, next(turns))

    return place


@contextlib.contextmanager
def tower_build(
    plan: DevicePlan,
    averages_loss: bool,
    statistics: BatchStatistics | None = None,
    summaries: Summaries = "first",
    xla: bool = False,
    reduction: GradientReduction = "last",
) -> Iterator[TowerBuild]:
    """Attaches a new `TowerBuild` to the current graph inside the context."""
    builds = v1.get_collection_ref(COLLECTION)
    build = TowerBuild(plan, averages_loss, statistics, summaries, xla, reduction)
    builds.append(build)
    try:
        with local_variables_on(build.task):
            yield build
    finally:
        builds.remove(build)


def current_build() -> TowerBuild | None:
    """Returns the state of the replicated call that is being built in the current graph."""
    builds = v1.get_collection_ref(COLLECTION)
    return builds[-1] if builds else None


def current_tower() -> TowerContext | None:
    """Returns the tower that is being built, or None outside of a replicated `model_fn`."""
    build = current_build()
    return build.tower if build else None


def per_tower_collection(key: str) -> list[Any]:
    """Returns the entries that the current tower has added to a graph collection.

    Args:
      key: Name of the collection, such as `tf.compat.v1.GraphKeys.UPDATE_OPS`.

    Returns:
      The tower's own entries. Outside of a replicated `model_fn`, the whole collection.
    """
    build = current_build()
    if build is None or build.tower is None:
        return list(v1.get_collection(key))
    return build.collections.of_tower(key)
