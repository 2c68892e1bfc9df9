"""Scopes of towers: devices, names, shared variables, collections and XLA.

`TowerScopes` enters a tower, and leaves it for what exists once for all towers. `TowerBuild`, which
an optimizer or a head finds in the graph, knows neither.

Layers add losses, update operations and summaries to collections of the whole graph, and a
`model_fn` reads these collections as if it were alone. So while a tower is built, it sees only the
entries that were there before the towers, and its own. Afterwards the collections hold all entries
again, except for summaries: those of the first tower, or of all towers if asked, and those made
outside of the towers.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow as tf

from model_deploy.devices import VARIABLE_OPS, VariablePlacer, completed
from model_deploy.local_variables import current_task, local_variables_on
from model_deploy.variables import SharedVariables
from model_deploy.xla import compiled_by_xla, uncompiled
from replicate._types import Operation, Tensor, Variable
from replicate.tower.build import (
    Summaries,
    TowerBuild,
    TowerContext,
    TowerGradients,
    TowerSettings,
    attached,
)

v1 = tf.compat.v1

Keys = v1.GraphKeys


class TowerCollections:
    """Hides the towers of one replicated call from each other in the graph's collections."""

    def __init__(self, regularizes: Callable[[], bool], summaries: Summaries = "first"):
        """Remembers the entries of the collections before the first tower.

        Args:
          regularizes: Returns True if the current tower adds the regularization losses to its loss.
            If it does not, it sees zeros.
          summaries: Towers whose summaries are kept.
        """
        self._summaries = summaries
        self._separate = [Keys.LOSSES, Keys.UPDATE_OPS, Keys.SUMMARIES]
        self._regularizes = regularizes
        self._ambient = {key: v1.get_collection(key) for key in self._separate}
        self._added: dict[str, list[Any]] = {key: [] for key in self._separate}
        self._start: dict[Any, int] = {}
        self._outside: list[Any] = []

    @contextlib.contextmanager
    def tower(self, index: int) -> Iterator[None]:
        """Shows the collections to tower `index` as if it were the only one."""
        hidden = [] if self._regularizes() else [Keys.REGULARIZATION_LOSSES]
        held = {key: v1.get_collection(key) for key in hidden}
        for key in self._separate:
            v1.get_collection_ref(key)[:] = self._ambient[key]
        for key, values in held.items():
            v1.get_collection_ref(key)[:] = [tf.zeros_like(value) for value in values]
        keys = v1.get_default_graph().get_all_collection_keys()
        self._start = {key: len(v1.get_collection_ref(key)) for key in keys}
        try:
            yield
        finally:
            self._restore(index, held)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Keeps the summaries made inside, even while a later tower is built."""
        summaries = v1.get_collection_ref(Keys.SUMMARIES)
        start = len(summaries)
        yield
        self._outside += summaries[start:]

    def of_tower(self, key: str) -> list[Any]:
        """Returns the entries that the current (or else the last) tower added to a collection."""
        return list(v1.get_collection_ref(key)[self._start.get(key, 0) :])

    def _restore(self, index: int, held: dict[str, list[Any]]) -> None:
        for key in self._separate:
            added = self.of_tower(key)
            if key == Keys.SUMMARIES and index > 0 and self._summaries == "first":
                added = [new for new in added if any(new is kept for kept in self._outside)]
            self._added[key] += added
            v1.get_collection_ref(key)[:] = [*self._ambient[key], *self._added[key]]
        for key, values in held.items():
            v1.get_collection_ref(key)[: len(values)] = values
        self._start = {}


@final
class TowerScopes:
    """Scopes of the towers of one replicated `model_fn` call."""

    def __init__(self, settings: TowerSettings):
        self._settings = settings
        self.collections = TowerCollections(lambda: self.build.regularizes, settings.summaries)
        self.variables = SharedVariables()
        self._placer = VariablePlacer(settings.plan.parameters)
        self._variable_scope = v1.get_variable_scope()
        self._name_scope = v1.get_default_graph().get_name_scope()
        self._made_outside: list[str] = []
        """Names of the variables that were made outside of the towers."""
        self.build = TowerBuild(settings, current_task(), self.outside, self.collections.of_tower)

    @contextlib.contextmanager
    def tower(
        self, index: int, weight: Tensor, substitute: Callable[[Variable], Variable] | None = None
    ) -> Iterator[TowerContext]:
        """Enters the scopes of the next tower: its device, names and shared variables.

        `weight` is that of its shard. `substitute` returns the tower's replacement of a shared
        variable.
        """
        names = v1.name_scope(f"tower_{index}") if index else contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            tower = stack.enter_context(self.build.in_tower(index, weight))
            stack.enter_context(names)
            stack.enter_context(v1.device(self._placer.on(tower.device)))
            stack.enter_context(self.variables.copy(index, tower.label, substitute=substitute))
            stack.enter_context(self.collections.tower(index))
            if self._settings.xla:
                stack.enter_context(compiled_by_xla())
            yield tower

    @contextlib.contextmanager
    def outside(self, first: TowerGradients | None = None) -> Iterator[None]:
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
            stack.callback(setattr, self.build, "is_outside", self.build.is_outside)
            self.build.is_outside = True
            stack.enter_context(self.variables.suspended())
            stack.enter_context(self.collections.outside())
            if self._settings.xla:
                stack.enter_context(uncompiled())
            stack.enter_context(v1.variable_scope(variable_scope, auxiliary_name_scope=False))
            stack.enter_context(v1.name_scope(f"{name_scope}/" if name_scope else None))
            stack.enter_context(v1.device(None))
            stack.enter_context(v1.device(self.build.task))
            stack.enter_context(v1.device(_tasks_of(v1.trainable_variables())))
            stack.enter_context(v1.device(self._placer.on("")))
            stack.enter_context(v1.variable_creator_scope(self._create_outside))
            self._count_scopes_again(variable_scope.name)
            yield

    def _create_outside(self, next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        """Variable creator that notes the names of variables."""
        variable = next_creator(**kwargs)
        self._made_outside.append(variable.op.name)
        return variable

    def _count_scopes_again(self, within: str) -> None:
        """Enters the variable scopes of earlier variables, so that new ones get other names.

        TensorFlow numbers scopes of one name, such as those of an optimizer's slots, but forgets
        the numbers of all that are `within` a scope when that is left and entered again.
        """
        start = f"{within}/" if within else ""
        names = [each.removeprefix(start) for each in self._made_outside if each.startswith(start)]
        parts = (itertools.accumulate(each.split("/"), "{}/{}".format) for each in names)
        for scope in sorted(set().union(*parts), key=len):  # Leaving one forgets those within it.
            with v1.variable_scope(scope, auxiliary_name_scope=False):
                pass


@contextlib.contextmanager
def tower_scopes(settings: TowerSettings) -> Iterator[TowerScopes]:
    """Makes the scopes of a call, whose state is attached to the graph inside the context."""
    scopes = TowerScopes(settings)
    with attached(scopes.build), local_variables_on(scopes.build.task):
        yield scopes


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
