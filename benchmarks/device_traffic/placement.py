"""Devices on which TensorFlow would place the operations of a graph, with soft placement.

Follows the documented rules of TensorFlow's placer for one task with one CPU and GPUs:

- Operations of one colocation group share a device: those that name each other by
  `colocate_with`, and those that share a variable, by its handle or by reference.
- A group is on the device that its members request. Without a request it is on the first GPU.
- A group with a member that has no GPU kernel is on the CPU, even if it requests a GPU.
- Without a request, an operation without inputs is where its consumers are, and one that reads only
  the shape of its input is where the input is.

The table `gpu_kernels.json` has the kernels that TensorFlow 2.21, built with CUDA, registers. For
each op type, the first entry that accepts the types counts: "types" maps attributes to the names of
accepted data types, "host" lists the arguments that are in the memory of the CPU.
"""

import functools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

v1 = tf.compat.v1

Operation = Any
Devices: TypeAlias = Mapping[Operation, str]
"""Device of each operation: "CPU:0", "GPU:1"."""

CPU = "CPU:0"
_METADATA = frozenset({"Rank", "Shape", "Size"})


class Kernel(NamedTuple):
    """GPU kernel of one operation: numbers of its inputs and outputs in the memory of the CPU."""

    host_inputs: frozenset[int] = frozenset()
    host_outputs: frozenset[int] = frozenset()


def gpu_kernel(operation: Operation) -> Kernel | None:
    """Returns the GPU kernel of an operation, or None if it has none."""
    described = operation.op_def
    for entry in _kernels().get(operation.type, ()):
        if all(_accepts(operation, *item) for item in entry["types"].items()):
            sides = (
                _tensors(operation, each) for each in (described.input_arg, described.output_arg)
            )
            host = (
                [n for n, each in enumerate(side) if each.name in entry["host"]] for side in sides
            )
            return Kernel(*map(frozenset, host))
    return None


@functools.cache
def _kernels() -> dict[str, list[dict[str, Any]]]:
    table = pathlib.Path(__file__).with_name("gpu_kernels.json")
    return json.loads(table.read_text(encoding="utf-8"))["kernels"]


def _accepts(operation: Operation, attribute: str, accepted: Sequence[str]) -> bool:
    value = operation.get_attr(attribute)
    types = value if isinstance(value, list) else [value]
    return all(dtype.name in accepted for dtype in types)


def _tensors(operation: Operation, described: Iterable[Any]) -> list[Any]:
    """Returns the argument that each input, or each output, of an operation belongs to."""
    found = []
    for argument in described:
        count = 1
        if argument.number_attr:
            count = operation.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(operation.get_attr(argument.type_list_attr))
        found += [argument] * count
    return found


def place(
    operations: Sequence[Operation],
    has_gpu_kernel: Callable[[Operation], bool],
    default: str = "GPU:0",
) -> Devices:
    """Returns the device of each operation of a graph, where some request none."""
    placed: dict[Operation, str] = {}
    free: list[Operation] = []
    for group in _groups(operations):
        request = next(filter(None, map(requested_device, group)), None)
        on_gpu = all(map(has_gpu_kernel, group))
        placed.update(dict.fromkeys(group, (request or default) if on_gpu else CPU))
        free += group if request is None and len(group) == 1 else []
    for operation in sorted(free, key=lambda each: not each.inputs):  # Stable; sources come last.
        near = set()
        if operation.type in _METADATA:
            near = {placed[operation.inputs[0].op]}
        elif not operation.inputs and len(operation.outputs) == 1:
            near = {placed[each] for each in operation.outputs[0].consumers()}
        if len(near) == 1 and (near == {CPU} or has_gpu_kernel(operation)):
            (placed[operation],) = near
    return placed


def requested_device(operation: Operation) -> str | None:
    """Returns the device that an operation requests, such as "GPU:1", or None."""
    spec = v1.DeviceSpec.from_string(operation.device)
    return f"{spec.device_type}:{spec.device_index or 0}" if spec.device_type else None


def _groups(operations: Sequence[Operation]) -> Iterable[list[Operation]]:
    """Returns the colocation groups, in order of their first members."""
    by_name = {operation.name: operation for operation in operations}
    leader = {operation: operation for operation in operations}

    def find(operation: Operation) -> Operation:
        while leader[operation] is not operation:
            leader[operation] = operation = leader[leader[operation]]
        return operation

    for operation in operations:
        named = [key.decode().removeprefix("loc:@") for key in operation.colocation_groups()]
        arguments = _tensors(operation, operation.op_def.input_arg)
        for tensor, argument in zip(operation.inputs, arguments, strict=True):
            if tensor.dtype == tf.resource or argument.is_ref:
                named.append(tensor.op.name)
        for name in named:
            leader[find(operation)] = find(by_name[name])
    groups: dict[Operation, list[Operation]] = {}
    for operation in operations:
        groups.setdefault(find(operation), []).append(operation)
    return groups.values()
