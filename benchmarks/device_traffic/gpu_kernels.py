"""GPU kernels of the operations of a graph, looked up in a table.

The table `gpu_kernels.json` has the kernels that TensorFlow 2.21, built with CUDA, registers. For
each op type, the first entry that accepts the types counts: "types" maps attributes to the names of
accepted data types, "host" lists the arguments that are in the memory of the CPU.
"""

import json
import pathlib
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

Operation = Any
_TABLE = pathlib.Path(__file__).with_name("gpu_kernels.json")


class Kernel(NamedTuple):
    """GPU kernel of one operation: numbers of its inputs and outputs in the memory of the CPU."""

    host_inputs: frozenset[int]
    host_outputs: frozenset[int]


@typing.final
class GpuKernels:
    """Table of GPU kernels."""

    def __init__(self) -> None:
        table = json.loads(_TABLE.read_text(encoding="utf-8"))
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
        end = start + length_of(operation, argument)
        if argument.name in host:
            positions.extend(range(start, end))
        start = end
    return frozenset(positions)


def length_of(operation: Operation, argument: Any) -> int:
    """Returns the number of tensors that belong to an argument."""
    if argument.number_attr:
        return int(operation.get_attr(argument.number_attr))
    if argument.type_list_attr:
        return len(operation.get_attr(argument.type_list_attr))
    return 1
