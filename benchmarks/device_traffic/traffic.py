"""Traffic of one training step between devices, found from its graph without running it.

`measure` places the operations of a graph, selects those that a step runs, and lists the tensors
that go from one memory to another. Memories are those of the CPU and of each GPU. Some inputs and
outputs of GPU kernels are in the memory of the CPU, such as shapes, int32 numbers and predicates.

A copy from a GPU to the CPU waits for the GPU's queue. If a GPU later needs a result of that copy,
the GPU is idle in between: that is a wait in the middle of the step. `rounds` is the largest number
of waits that follow each other. `transfers` is that of tensors of more than 1 KiB that cross.

Tensors that TensorFlow computes once, before the first step, are not counted, nor are operations
that do not run because a chosen output of a `Switch` is dead. Sizes are those of static shapes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.device_traffic import placement
from benchmarks.device_traffic.gpu_kernels import GpuKernels, Kernel

Operation = Any
Tensor = Any
CPU = placement.CPU
LARGE = 1024
"""Bytes above which a crossing tensor is listed."""
_SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_BACK = "NextIteration"
_HOST_KERNEL = Kernel(frozenset(), frozenset())


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

    @property
    def route(self) -> str:
        """Kinds of the memories: "GPU>CPU"."""
        return f"{self.source[:3]}>{self.target[:3]}"


class Stray(NamedTuple):
    """Operation that requests a GPU but has no kernel for it, so it runs on the CPU.

    All operations that are colocated with it run there, too.
    """

    name: str
    kind: str
    device: str


class Links(dict[tuple[str, str], int]):
    """Bytes by (source, target) as in ("GPU:0", "CPU:0"). Those of unknown size count as 0."""

    def received(self, memory: str) -> int:
        """Returns the bytes that go into a memory."""
        return sum(size for (_, target), size in self.items() if target == memory)

    def sent(self, memory: str) -> int:
        """Returns the bytes that come out of a memory."""
        return sum(size for (source, _), size in self.items() if source == memory)

    def between_halves(self, gpus: int) -> int:
        """Returns the bytes from the second half of the GPUs to the first, or back if more."""
        crossing = [0, 0]
        for names, size in self.items():
            if CPU not in names:
                first, second = (int(name[4:]) >= gpus // 2 for name in names)
                if first != second:
                    crossing[first] += size
        return max(crossing)


class Traffic(NamedTuple):
    """Traffic of a step.

    Attributes:
      crossings: What crosses, in the order of the graph.
      strays: Operations that request a GPU but have no kernel for it.
      rounds: Largest number of waits that follow each other.
      transfers: Largest number of tensors of more than `LARGE` bytes that cross one after another.
      kept: Bytes of all variables, by device.
    """

    crossings: list[Crossing]
    strays: list[Stray]
    rounds: int
    transfers: int
    kept: Mapping[str, int]

    def sent(self, route: str) -> int:
        """Returns the bytes that cross on a route such as "CPU>GPU"."""
        return sum(each.bytes or 0 for each in self.crossings if each.route == route)

    @property
    def waits(self) -> list[Crossing]:
        """Copies to the CPU that a GPU waits for in the middle of the step."""
        return [each for each in self.crossings if each.is_wait]

    @property
    def large(self) -> list[Crossing]:
        """Tensors of more than `LARGE` bytes, or of unknown size, that cross."""
        return [each for each in self.crossings if _is_large(each.bytes)]

    def links(self, scope: str = "") -> Links:
        """Returns the links of what operations in a name scope need."""
        found = Links()
        for each in self.crossings:
            if each.bytes and any(name.startswith(scope) for name in each.consumers):
                link = (each.source, each.target)
                found[link] = found.get(link, 0) + each.bytes
        return found


class _Edge(NamedTuple):
    """Dependency of an executed operation, and the memories that it goes from and to."""

    source: Operation
    target: Operation
    tensor: Tensor | None
    start: str
    end: str

    @property
    def waits_for_gpu(self) -> bool:
        """True for a copy from a GPU to the CPU."""
        return self.start != CPU and self.end == CPU

    @property
    def crosses_large(self) -> bool:
        """True for a tensor of more than `LARGE` bytes that crosses."""
        return self.start != self.end and self.tensor is not None and _is_large(_size(self.tensor))


def measure(
    operations: Sequence[Operation],
    fetches: Iterable[Operation],
    scope: str = "",
    rare: Callable[[Tensor], bool] = lambda tensor: False,
) -> Traffic:
    """Returns the traffic of a step that runs some operations of a graph.

    Only tensors that operations in the name scope need count as transfers. `rare` selects outputs
    of `Switch` that are dead in the step.
    """
    kernels = GpuKernels()
    found = {operation: kernels.find(operation) for operation in operations}
    placed = placement.place(operations, lambda operation: found[operation] is not None)
    skipped = computed_before(operations) | dead_operations(operations, rare)
    executed = executed_operations(operations, fetches, skipped)
    edges = _edges(executed, placed, found)
    on_gpus = [operation for operation in executed if placed[operation] != CPU]
    waits = _levels(edges, lambda edge: edge.waits_for_gpu)
    transfers = _levels(
        edges, lambda edge: edge.crosses_large and edge.target.name.startswith(scope)
    )
    return Traffic(
        crossings=_crossings(edges, _needed_by(on_gpus, edges)),
        strays=list(_strays(executed, placed, found)),
        rounds=max((waits.get(each, 0) for each in on_gpus), default=0),
        transfers=max(transfers.values(), default=0),
        kept=_kept(operations, placed),
    )


def _kept(operations: Iterable[Operation], placed: Mapping[Operation, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for operation in operations:
        if operation.type == "VarHandleOp":
            shape = tf.TensorShape(operation.get_attr("shape"))
            size = (shape.num_elements() or 0) * operation.get_attr("dtype").size
            found[placed[operation]] = found.get(placed[operation], 0) + size
    return found


def computed_before(operations: Iterable[Operation]) -> set[Operation]:
    """Returns operations whose results TensorFlow computes once, before the first step.

    These are constants, shapes that are static, and what is computed from only these. None of them
    waits for another operation: constants in a conditional branch are made in each step.
    """
    known: set[Operation] = set()
    for operation in operations:
        if operation.op_def.is_stateful or operation.control_inputs or not operation.outputs:
            continue
        is_shape = operation.type in _SHAPES and all(
            tensor.shape.is_fully_defined() for tensor in operation.inputs
        )
        from_known = all(tensor.op in known for tensor in operation.inputs)
        if is_shape or operation.type == "Const" or (operation.inputs and from_known):
            known.add(operation)
    return known


def dead_operations(
    operations: Iterable[Operation], is_dead: Callable[[Tensor], bool]
) -> set[Operation]:
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


def _needed_by(targets: Iterable[Operation], edges: Iterable[_Edge]) -> set[Operation]:
    sources: dict[Operation, list[Operation]] = {}
    for edge in edges:
        sources.setdefault(edge.target, []).append(edge.source)
    return _reached(targets, lambda operation: sources.get(operation, ()))


def _is_large(size: int | None) -> bool:
    return size is None or size > LARGE


def _edges(
    executed: Sequence[Operation],
    placed: Mapping[Operation, str],
    found: Mapping[Operation, Kernel | None],
) -> list[_Edge]:
    """Returns the dependencies of the executed operations on each other."""
    present = set(executed)
    edges = []
    for target in executed:
        kernel = found[target] or _HOST_KERNEL
        for index, tensor in enumerate(target.inputs):
            if tensor.op in present:
                end = CPU if index in kernel.host_inputs else placed[target]
                outputs = (found[tensor.op] or _HOST_KERNEL).host_outputs
                start = CPU if tensor.value_index in outputs else placed[tensor.op]
                edges.append(_Edge(tensor.op, target, tensor, start, end))
        for source in target.control_inputs:
            if source in present:
                edges.append(_Edge(source, target, None, placed[source], placed[target]))
    return edges


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


def _crossings(edges: Iterable[_Edge], before_gpus: set[Operation]) -> list[Crossing]:
    """Returns one entry for each tensor and memory that it is sent to."""
    consumers: dict[tuple[str, str, str], list[_Edge]] = {}
    for edge in edges:
        if edge.start != edge.end:
            name = f"^{edge.source.name}" if edge.tensor is None else edge.tensor.name
            consumers.setdefault((name, edge.start, edge.end), []).append(edge)
    return [
        Crossing(
            name=name,
            kind=same[0].source.type,
            source=source,
            target=target,
            bytes=0 if same[0].tensor is None else _size(same[0].tensor),
            consumers=tuple(edge.target.name for edge in same),
            is_wait=any(edge.waits_for_gpu and edge.target in before_gpus for edge in same),
        )
        for (name, source, target), same in consumers.items()
    ]


def _size(tensor: Tensor) -> int | None:
    elements = tensor.shape.num_elements()
    return None if elements is None else int(elements * tensor.dtype.size)


def _strays(
    executed: Iterable[Operation],
    placed: Mapping[Operation, str],
    found: Mapping[Operation, Kernel | None],
) -> Iterable[Stray]:
    for operation in executed:
        requested = placement.requested_device(operation)
        if requested not in (None, placed[operation]) and found[operation] is None:
            yield Stray(operation.name, operation.type, requested)
