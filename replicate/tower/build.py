"""Towers: copies of a `model_fn`, one per device, while they are being built.

`TowerContext` tells a `model_fn` about the tower that it builds. `TowerBuild` is the state of one
replicated call: objects that the towers share, scales of their losses, and the gradients that
`TowerOptimizer` collects. `scopes` attaches it to the graph while the towers are being built, and
removes it afterwards, also after an error.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from model_deploy.devices import DevicePlan, completed
from model_deploy.reduction import GradientReduction
from replicate._types import Device, Gradient, Nest, Operation, Tensor, Variable
from replicate.graph_ops.finite import Watched
from replicate.protocols import PART_OF_LOSS, SHARED
from replicate.tower.loss_verdicts import LossVerdicts
from replicate.tower.shares import UNWEIGHTED, GradientShare, share_of

v1 = tf.compat.v1

Summaries: TypeAlias = Literal["first", "all"]
"""Towers whose summaries are written: the first one, or all."""

COLLECTION = "replicate_model_fn_tower_build"
REDUCED_GRADIENTS = ("replicate", "reduced_gradients")
"""Key of the (gradient, variable) pairs of the whole batch, for all TowerOptimizers of a graph.

Not a string, so that an exported MetaGraph does not contain the collection.
"""


@dataclasses.dataclass(frozen=True)
class TowerSettings:
    """Settings of the towers of one replicated call.

    Attributes:
      plan: Devices of towers and variables.
      averages_loss: True if a tower's loss is a mean over its shard, which is weighted by its share
        of the batch. False if losses are summed. None if that depends on the losses that a
        `model_fn` makes, see `loss_verdicts`.
      summaries: Towers whose summaries are kept.
      xla: True to compile the towers with XLA.
      reduction: Way by which the towers' gradients are summed.
      wraps_optimizers: True if optimizers that no TowerOptimizer wraps count as wrapped.
      one_batch_each: True if each tower gets a batch of its own; False if one batch is split.
    """

    plan: DevicePlan
    averages_loss: bool | None
    summaries: Summaries = "first"
    xla: bool = False
    reduction: GradientReduction = "last"
    wraps_optimizers: bool = False
    one_batch_each: bool = False


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
        settings: TowerSettings,
        task: Device,
        outside_towers: Callable[..., AbstractContextManager[None]],
        of_tower: Callable[[str], list[Any]],
    ):
        """Makes the state for one call.

        `of_tower` returns the entries that the current tower has added to a graph collection.
        """
        self.settings = settings
        self.graph = v1.get_default_graph()
        self.task = task
        self.outside_towers = outside_towers
        """Leaves the scopes of the current tower, as `TowerScopes.outside`."""
        self.of_tower = of_tower
        self.tower: TowerContext | None = None
        self.calls: list[list[TowerGradients]] = [[] for _ in settings.plan.towers]
        """For each tower, the gradients of its calls of `apply_gradients`, in order."""
        self.skipped: list[Tensor] = []
        """For each update that may be skipped: True if it was, a boolean scalar known after it."""
        self.batches: list[tuple[Nest, Nest]] = []
        """Features and labels of each tower."""
        self.gathered: list[Operation] = []
        """Operations of the updates from the gradients of all towers."""
        self.is_outside = False
        """True inside of `outside_towers`."""
        self.verdicts = LossVerdicts(
            settings.averages_loss, len(settings.plan.towers), not settings.one_batch_each
        )
        """Verdicts on losses whose reduction the settings leave open."""
        self._losses: list[Tensor] = []
        """The losses of the current tower."""
        self._shared: list[Any] = []
        self._shared_taken = [0] * len(settings.plan.towers)
        self._weight: Tensor = 1.0

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Records the operations that are made in the context as those of an update."""
        before = len(self.graph.get_operations())
        yield
        self.gathered += self.graph.get_operations()[before:]

    @contextlib.contextmanager
    def in_tower(self, index: int, weight: Tensor) -> Iterator[TowerContext]:
        """Makes the next tower, with the weight of its shard, the current one in the context."""
        towers = self.settings.plan.towers
        self.tower = TowerContext(index, len(towers), towers[index])
        self._weight = weight
        self._losses = []
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(_in_collection(PART_OF_LOSS, self.part_of_loss))
                if self.settings.wraps_optimizers:
                    stack.enter_context(_in_collection(SHARED, self.shared))
                yield self.tower
        finally:
            self.tower = None

    @property
    def call_counts(self) -> list[int]:
        """Calls of `apply_gradients` of each tower so far."""
        return [len(calls) for calls in self.calls]

    def device(self, index: int) -> Device:
        """Returns the device of a tower, with its task."""
        return completed(self.settings.plan.towers[index], self.task)

    def ends(self, index: int) -> list[Operation]:
        """Returns the ends of the current tower's losses and gradients, which run in every step."""
        return [*(loss.op for loss in self._losses), *(part.done for part in self.calls[index])]

    def add_loss(self, loss: Tensor, optimizer: Any = None) -> None:
        """Notes a loss of the current tower, before it is weighted, and the optimizer of it."""
        self._losses.append(loss)
        self.verdicts.computed(loss, optimizer)

    def counted_loss(self, loss: Tensor) -> Tensor:
        """Returns a loss of the current tower without what the first tower counts for all."""
        return loss if self.regularizes else self.verdicts.without_constants(loss)

    def part_of_loss(self, loss: Tensor) -> Tensor:
        """Returns the current tower's part of the whole batch's loss."""
        return self.share(self.counted_loss(loss), "averaged_loss")

    def share(self, value: Tensor, name: str) -> Tensor:
        """Returns a loss or gradient of the current tower, weighted by its share of the batch."""
        return share_of(value, self.gradient_share.share, name)

    @property
    def averages_loss(self) -> bool:
        """True if a tower's loss is a mean over its shard, as far as is known now."""
        known = self.settings.averages_loss
        return not self.verdicts.sums_loss if known is None else known

    @property
    def regularizes(self) -> bool:
        """True if the current tower's loss has the terms that do not depend on the batch.

        If losses are averaged, each tower has them; if they are summed, the first one.
        """
        is_first = self.tower is None or self.tower.is_first
        return is_first or self.averages_loss or self.settings.one_batch_each

    @property
    def gradient_share(self) -> GradientShare:
        """Share of the batch by which the current tower's gradients count."""
        if self.tower is None or self.tower.count == 1 or not self.averages_loss:
            return UNWEIGHTED
        return GradientShare(self._weight)

    def shared(self, make: Callable[[], Any]) -> Any:
        """Returns the next shared object. The n-th call in each tower returns the same object.

        The first tower that asks makes it, outside of towers.
        """
        index = self.tower.index if self.tower else 0
        position = self._shared_taken[index]
        self._shared_taken[index] += 1
        if position == len(self._shared):
            with self.outside_towers():
                self._shared.append(make())
        return self._shared[position]


@contextlib.contextmanager
def _in_collection(key: Any, entry: Any) -> Iterator[None]:
    """Adds an entry to a collection of the current graph while inside the context."""
    entries = v1.get_collection_ref(key)
    entries.append(entry)
    try:
        yield
    finally:
        entries.remove(entry)


@contextlib.contextmanager
def attached(build: TowerBuild) -> Iterator[None]:
    """Makes a build the current one of the graph inside the context."""
    with _in_collection(COLLECTION, build):
        yield


def current_build() -> TowerBuild | None:
    """Returns the state of the replicated call that is being built in the current graph."""
    builds = v1.get_collection_ref(COLLECTION)
    return builds[-1] if builds else None


def build_of_tower() -> TowerBuild | None:
    """Returns the current build while it builds a tower; None outside of towers."""
    build = current_build()
    return None if build is None or build.tower is None or build.is_outside else build


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
    return build.of_tower(key)
