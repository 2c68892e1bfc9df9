"""Traffic of one training step between devices, found from its graph without running it.

`measure` places the operations of a graph, selects those that a step runs, and lists the tensors
that go from one memory to another. Memories are those of the CPU and of each GPU. Some inputs and
outputs of GPU kernels are in the memory of the CPU, such as shapes, int32 numbers and predicates.

A copy from a GPU to the CPU waits for the GPU's queue. If a GPU later needs a result of that copy,
the GPU is idle in between: that is a wait in the middle of the step.

Tensors that TensorFlow computes once, before the first step, are not counted, nor are operations
that do not run because a chosen output of a `Switch` is dead. Sizes are those of static shapes.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from benchmarks.device_traffic.placement import CPU, Kernel, gpu_kernel, place, requested_device

Operation = Any
Links: TypeAlias = Mapping[tuple[str, str], int]
"""Bytes by (source, target) as in ("GPU:0", "CPU:0"). Those of unknown size count as 0."""

LARGE = 1024
"""Bytes above which a crossing tensor is listed."""
_SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_BACK = "NextIteration"


class Crossing(NamedTuple):
    """Tensor, or control dependency, that goes from one memory to another.

    Attributes:
      name: Name of the tensor; "^" and the name of the operation for a control dependency.
      kind: Type of the operation that makes it.
      source: Memory that it comes from: "CPU:0" or "GPU:1".
      target: Memory that it goes to.
      bytes: Its size; 0 for a control dependency; None if the shape is not static.
      consumers: Names of the operations that need it there.
      is_wait: True for a copy to the CPU that some GPU waits for in the same step.
    """

    name: str
    kind: str
    source: str
    target: str
    bytes: int | None
    consumers: tuple[str, ...]
    is_wait: bool


class Traffic(NamedTuple):
    """Traffic of a step.

    Attributes:
      crossings: What crosses, in the order of the graph.
      strays: Operations that request a GPU but have no kernel for it, as "GPU:0 kind name". They
        and all that are colocated with them run on the CPU.
      rounds: Largest number of waits that follow each other.
      transfers: Largest number of tensors of more than `LARGE` bytes that cross one after another.
      operations: Number of operations that run, by device.
      kept: Bytes of all variables, by device.
    """

    crossings: list[Crossing]
    strays: list[str]
    rounds: int
    transfers: int
    operations: Mapping[str, int]
    kept: Mapping[str, int]

    def sent(self, route: str) -> int:
        """Returns the bytes that cross on a route such as "CPU>GPU"."""
        links = self.links().items()
        return sum(size for (a, b), size in links if f"{a[:3]}>{b[:3]}" == route)

    @property
    def waits(self) -> list[Crossing]:
        """Copies to the CPU that a GPU waits for in the middle of the step."""
        return [each for each in self.crossings if each.is_wait]

    def links(self, scope: str = "") -> Links:
        """Returns the links of what operations in a name scope need."""
        found: collections.Counter[tuple[str, str]] = collections.Counter()
        for each in self.crossings:
            if each.bytes and any(name.startswith(scope) for name in each.consumers):
                found[each.source, each.target] += each.bytes
        return found


def flow(links: Links, sources: Collection[str], targets: Collection[str]) -> int:
    """Returns the bytes that go from some memories into others."""
    return sum(size for (a, b), size in links.items() if a in sources and b in targets)


class _Edge(NamedTuple):
    """Dependency of an executed operation, and the memories that it goes from and to."""

    source: Operation
    target: Operation
    tensor: Any | None
    start: str
    end: str

    @property
    def waits_for_gpu(self) -> bool:
        """True for a copy from a GPU to the CPU."""
        return self.start != CPU and self.end == CPU

    @property
    def size(self) -> int | None:
        """Bytes of the tensor; 0 for a control dependency; None if the shape is not static."""
        if self.tensor is None:
            return 0
        elements = self.tensor.shape.num_elements()
        return None if elements is None else int(elements * self.tensor.dtype.size)


def measure(
    operations: Sequence[Operation],
    fetches: Iterable[Operation],
    scope: str = "",
    rare: Callable[[Any], bool] = lambda tensor: False,
) -> Traffic:
    """Returns the traffic of a step that runs some operations of a graph.

    Only tensors that operations in the name scope need count as transfers. `rare` selects outputs
    of `Switch` that are dead in the step.
    """
    kernels = {operation: gpu_kernel(operation) for operation in operations}
    placed = place(operations, lambda operation: kernels[operation] is not None)
    skipped = _computed_before(operations) | _dead(operations, rare)
    executed = executed_operations(operations, fetches, skipped)
    edges = list(_edges(executed, placed, kernels))
    on_gpus = [operation for operation in executed if placed[operation] != CPU]
    waits = _levels(edges, lambda edge: edge.waits_for_gpu)
    crossing = _levels(
        edges,
        lambda e: e.start != e.end and is_large(e.size) and e.target.name.startswith(scope),
    )
    requests = ((each, requested_device(each)) for each in executed if kernels[each] is None)
    kept: collections.Counter[str] = collections.Counter()
    for each in operations:
        if each.type == "VarHandleOp":
            elements = tf.TensorShape(each.get_attr("shape")).num_elements() or 0
            kept[placed[each]] += elements * each.get_attr("dtype").size
    return Traffic(
        crossings=list(_crossings(edges, on_gpus)),
        strays=[f"{on} {each.type} {each.name}" for each, on in requests if on not in (None, CPU)],
        rounds=max((waits.get(each, 0) for each in on_gpus), default=0),
        transfers=max(crossing.values(), default=0),
        operations=collections.Counter(placed[each] for each in executed),
        kept=kept,
    )


def is_large(size: int | None) -> bool:
    """Returns True for more than `LARGE` bytes, or for an unknown number."""
    return size is None or size > LARGE


def _computed_before(operations: Iterable[Operation]) -> set[Operation]:
    """Returns operations whose results TensorFlow computes once, before the first step.

    These are constants, shapes that are static, and what is computed from only these. None of them
    waits for another operation: constants in a conditional branch are made in each step.
    """
    known: set[Operation] = set()
    for operation in operations:
        if operation.op_def.is_stateful or operation.control_inputs or not operation.outputs:
            continue
        is_static = all(tensor.shape.is_fully_defined() for tensor in operation.inputs)
        from_known = operation.inputs and all(tensor.op in known for tensor in operation.inputs)
        if (operation.type in _SHAPES and is_static) or operation.type == "Const" or from_known:
            known.add(operation)
    return known


def _dead(operations: Iterable[Operation], is_dead: Callable[[Any], bool]) -> set[Operation]:
    """Returns operations of a graph that do not run because what they need is dead."""
    dead: set[Operation] = set()
    for operation in operations:
        missing = [tensor.op in dead or is_dead(tensor) for tensor in operation.inputs]
        lacks_input = all(missing) if operation.type == "Merge" else any(missing)
        if (missing and lacks_input) or not dead.isdisjoint(operation.control_inputs):
            dead.add(operation)
    return dead


def executed_operations(
    operations: Iterable[Operation], fetches: Iterable[Operation], skipped: set[Operation]
) -> list[Operation]:
    """Returns the operations that a step runs, without those that are skipped."""

    def before(operation: Operation) -> list[Operation]:
        every = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        return [each for each in every if each not in skipped]

    needed = _reached((each for each in fetches if each not in skipped), before)
    return [each for each in operations if each in needed]


def _reached(
    starts: Iterable[Operation], before: Callable[[Operation], Iterable[Operation]]
) -> set[Operation]:
    """Returns some operations and all that come before them."""
    reached: set[Operation] = set()
    waiting = list(starts)
    while waiting:
        operation = waiting.pop()
        if operation not in reached:
            reached.add(operation)
            waiting.extend(before(operation))
    return reached


def _edges(
    executed: Sequence[Operation],
    placed: Mapping[Operation, str],
    kernels: Mapping[Operation, Kernel | None],
) -> Iterator[_Edge]:
    """Yields the dependencies of the executed operations on each other."""
    present = set(executed)
    for target in executed:
        kernel = kernels[target] or Kernel()
        for index, tensor in enumerate(target.inputs):
            if tensor.op in present:
                end = CPU if index in kernel.host_inputs else placed[target]
                outputs = (kernels[tensor.op] or Kernel()).host_outputs
                start = CPU if tensor.value_index in outputs else placed[tensor.op]
                yield _Edge(tensor.op, target, tensor, start, end)
        for source in target.control_inputs:
            if source in present:
                yield _Edge(source, target, None, placed[source], placed[target])


def _levels(edges: Iterable[_Edge], counts: Callable[[_Edge], bool]) -> dict[Operation, int]:
    """Returns the largest number of edges that count on a path to each operation, 0 if absent."""
    costs = [(e.source, e.target, counts(e)) for e in edges if e.source.type != _BACK]
    levels: dict[Operation, int] = {}
    is_changed = True
    while is_changed:  # Operations come nearly always before those that need them.
        is_changed = False
        for source, target, cost in costs:
            level = levels.get(source, 0) + cost
            if level > levels.get(target, 0):
                levels[target], is_changed = level, True
    return levels


def _crossings(edges: Iterable[_Edge], on_gpus: Iterable[Operation]) -> Iterator[Crossing]:
    """Yields one entry for each tensor and memory that it is sent to."""
    sources = collections.defaultdict(list)
    same = collections.defaultdict(list)
    for edge in edges:
        sources[edge.target].append(edge.source)
        if edge.start != edge.end:
            name = f"^{edge.source.name}" if edge.tensor is None else edge.tensor.name
            same[name, edge.start, edge.end].append(edge)
    before_gpus = _reached(on_gpus, lambda operation: sources.get(operation, ()))
    for (name, source, target), group in same.items():
        is_wait = any(edge.waits_for_gpu and edge.target in before_gpus for edge in group)
        consumers = tuple(edge.target.name for edge in group)
        yield Crossing(
            name, group[0].source.type, source, target, group[0].size, consumers, is_wait
        )
