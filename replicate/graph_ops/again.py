"""Operations of a graph, made once more with other inputs."""

import graphlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation
from replicate.graph_ops.state import needs

v1 = tf.compat.v1


def make_again(
    operations: Sequence[Operation],
    replaced: Mapping[Operation, Operation],
    described: Mapping[Operation, Operation],
    after: Operation,
) -> dict[Operation, Operation]:
    """Makes operations of the default graph again, which take each other's results as before.

    Args:
      operations: Operations, none of which is part of a loop of control flow version 1.
      replaced: Operation whose results they take → operation whose results the new ones take.
      described: Operation → operation whose attributes the new one gets, such as the functions that
        it calls, in place of its own.
      after: Runs before all new operations.

    Returns:
      Each operation → its new one.
    """
    made: dict[Operation, Operation] = {}
    devices = {old.device: new.device for old, new in replaced.items()}
    graph = v1.get_default_graph()
    for operation in _sorted(operations):
        sources = {**replaced, **made}
        inputs = [
            sources[tensor.op].outputs[tensor.value_index] if tensor.op in sources else tensor
            for tensor in operation.inputs
        ]
        waits = [sources.get(each, each) for each in operation.control_inputs]
        device = operation.device
        if any(tensor.op in replaced for tensor in operation.inputs):
            device = devices.get(device, device)
        before = waits if any(each in made for each in needs(operation)) else [*waits, after]
        with v1.device(None), v1.device(device), v1.control_dependencies(before):
            made[operation] = graph.create_op(
                operation.type,
                inputs,
                [output.dtype for output in operation.outputs],
                attrs=_attributes(described.get(operation, operation)),
                name=operation.type,
            )
    return made


def _sorted(operations: Sequence[Operation]) -> Iterable[Operation]:
    """Sorts operations such that each comes after those that it needs.

    The order of creation is another one: an operation in a conditional of control flow version 1 is
    made before the switch of its input.
    """
    among = set(operations)
    needed = {each: [other for other in needs(each) if other in among] for each in operations}
    return graphlib.TopologicalSorter(needed).static_order()


def _attributes(operation: Operation) -> dict[str, Any]:
    """Returns the attributes of an operation, but not what it is colocated with."""
    attributes = operation.node_def.attr
    return {name: attributes[name] for name in attributes if name != "_class"}
