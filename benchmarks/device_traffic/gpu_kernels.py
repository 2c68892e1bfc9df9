"""GPU kernels of the operations of a graph, looked up in a table.

The table `gpu_kernels.json` is written by `kernel_registry` in a build of TensorFlow with CUDA.
Looking up kernels needs no such build.
"""

import json
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.device_traffic.kernel_registry import TABLE

Operation = Any


class Kernel(NamedTuple):
    """GPU kernel of one operation: numbers of its inputs and outputs in the memory of the CPU."""

    host_inputs: frozenset[int]
    host_outputs: frozenset[int]


@typing.final
class GpuKernels:
    """Table of GPU kernels."""

    def __init__(self) -> None:
        table = json.loads(TABLE.read_text(encoding="utf-8"))
        self.tensorflow: str = table["tensorflow"]
        """Version of TensorFlow that registered the kernels."""
        self._by_op: dict[str, list[dict[str, Any]]] = table["kernels"]

    def find(self, operation: Operation) -> Kernel | None:
        """Returns the GPU kernel of an operation, or None if it has none."""
        for entry in self._by_op.get(operation.type, ()):
            if all(_accepts(operation, *item) for item in entry["types"].items()):
                host, described = frozenset(entry["host"]), operation.op_def
                return Kernel(
                    _positions(operation, described.input_arg, host),
                    _positions(operation, described.output_arg, host),
                )
        return None


def _accepts(operation: Operation, attribute: str, accepted: Sequence[str]) -> bool:
    value = operation.get_attr(attribute)
    types = value if isinstance(value, list) else [value]
    return all(dtype.name in accepted for dtype in types)


def _positions(operation: Operation, arguments: Any, host: frozenset[str]) -> frozenset[int]:
    """Returns the numbers of the tensors that belong to the named arguments."""
    positions: list[int] = []
    start = 0
    for argument in arguments:
        end = start + _length(operation, argument)
        if argument.name in host:
            positions.extend(range(start, end))
        start = end
    return frozenset(positions)


def _length(operation: Operation, argument: Any) -> int:
    if argument.number_attr:
        return int(operation.get_attr(argument.number_attr))
    if argument.type_list_attr:
        return len(operation.get_attr(argument.type_list_attr))
    return 1
