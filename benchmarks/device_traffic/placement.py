"""Devices on which TensorFlow would place the operations of a graph, with soft placement.

Follows the documented rules of TensorFlow's placer for one task with one CPU and GPUs:

- Operations of one colocation group share a device: those that name each other by
  `colocate_with`, and those that share a variable, by its handle or by reference.
- A group is on the device that its members request. Without a request it is on the first GPU.
- A group with a member that has no GPU kernel is on the CPU, even if it requests a GPU.
- Without a request, an operation without inputs is where its consumers are, and one that reads only
  the shape of its input is where the input is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from benchmarks.device_traffic.gpu_kernels import length_of

v1 = tf.compat.v1

Operation = Any
Devices: TypeAlias = Mapping[Operation, str]
"""Device of each operation: "CPU:0", "GPU:1"."""

CPU = "CPU:0"
_METADATA = frozenset({"Rank", "Shape", "Size"})


def place(
    operations: Sequence[Operation],
    has_gpu_kernel: Callable[[Operation], bool],
    default: str = "GPU:0",
) -> Devices:
    """Returns the device of each operation of a graph, where some request none."""
    groups = _groups(operations)
    placed: dict[Operation, str] = {}
    free: list[Operation] = []
    for group in groups:
        requested = _requested(group)
        on_gpu = all(has_gpu_kernel(operation) for operation in group)
        device = (requested or default) if on_gpu else CPU
        placed.update(dict.fromkeys(group, device))
        if requested is None and len(group) == 1:
            free.extend(group)
    _follow_neighbours(free, placed, has_gpu_kernel)
    return placed


def requested_device(operation: Operation) -> str | None:
    """Returns the device that an operation requests, such as "GPU:1", or None."""
    if not operation.device:
        return None
    spec = v1.DeviceSpec.from_string(operation.device)
    return f"{spec.device_type}:{spec.device_index or 0}" if spec.device_type else None


def _groups(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Returns the colocation groups, in order of their first members."""
    by_name = {operation.name: operation for operation in operations}
    leader = {operation: operation for operation in operations}

    def find(operation: Operation) -> Operation:
        while leader[operation] is not operation:
            leader[operation] = leader[leader[operation]]
            operation = leader[operation]
        return operation

    for operation in operations:
        for other in _colocated(operation, by_name):
            leader[find(operation)] = find(other)
    groups: dict[Operation, list[Operation]] = {}
    for operation in operations:
        groups.setdefault(find(operation), []).append(operation)
    return list(groups.values())


def _colocated(operation: Operation, by_name: Mapping[str, Operation]) -> Iterable[Operation]:
    """Yields operations that share the device of an operation."""
    for key in operation.colocation_groups():
        yield by_name[key.decode().removeprefix("loc:@")]
    arguments = _arguments(operation)
    for tensor, is_ref in zip(operation.inputs, arguments, strict=True):
        if tensor.dtype == tf.resource or is_ref:
            yield tensor.op


def _arguments(operation: Operation) -> list[bool]:
    """Returns True for each input that is taken by reference."""
    return [
        argument.is_ref
        for argument in operation.op_def.input_arg
        for _ in range(length_of(operation, argument))
    ]


def _requested(group: Iterable[Operation]) -> str | None:
    requests = (requested_device(operation) for operation in group)
    return next((request for request in requests if request is not None), None)


def _follow_neighbours(
    free: Iterable[Operation],
    placed: dict[Operation, str],
    has_gpu_kernel: Callable[[Operation], bool],
) -> None:
    """Moves operations without a request to their inputs or consumers."""
    sources: list[Operation] = []
    for operation in free:
        if operation.type in _METADATA:
            device = placed[operation.inputs[0].op]
            if device == CPU or has_gpu_kernel(operation):
                placed[operation] = device
        elif not operation.inputs and len(operation.outputs) == 1:
            sources.append(operation)
    for operation in sources:
        consumers = {placed[each] for each in operation.outputs[0].consumers()}
        if len(consumers) == 1:
            (device,) = consumers
            if device == CPU or has_gpu_kernel(operation):
                placed[operation] = device
