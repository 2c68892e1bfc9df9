"""Initial values of variables that are made under control dependencies.

An initial value must not wait for a training step: nothing is initialized when it is computed. A
variable whose initial value is a function has that from TensorFlow. One whose initial value is a
tensor, such as `tf.Variable(tf.zeros_like(v))`, does not: the tensor was made before the variable.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.graph_ops.state import needs

v1 = tf.compat.v1


@contextlib.contextmanager
def unconditional_initial_values() -> Iterator[None]:
    """Lets variables made inside have initial values that do not wait for the context's controls.

    The controls are the control dependencies that are in force when the context is entered.
    Tensors made inside still wait for them; an initial value is computed from copies that do not.
    """
    graph = v1.get_default_graph()
    with v1.name_scope("initial_values"):
        controls = frozenset(tf.no_op(name="controls").control_inputs)
    if not controls:
        yield
        return
    existing = frozenset(graph.get_operations())

    def create(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        initial_value = kwargs.get("initial_value")
        if isinstance(initial_value, tf.Tensor) and initial_value.graph is graph:
            kwargs["initial_value"] = _without(controls, existing, initial_value)
        return next_creator(**kwargs)

    with v1.variable_creator_scope(create):
        yield


def _without(
    controls: frozenset[Operation], existing: frozenset[Operation], tensor: Tensor
) -> Tensor:
    """Returns the value of a tensor, computed without waiting for the controls."""
    copies: dict[Operation, Operation] = {}
    for operation in _in_order(tensor.op, existing):
        if operation.type == "NextIteration":
            return tensor  # A loop has no order in which it could be copied.
        before = needs(operation)
        if not controls.isdisjoint(before) or not copies.keys().isdisjoint(before):
            copies[operation] = _copy(operation, controls, copies)
    copied = copies.get(tensor.op)
    return tensor if copied is None else copied.outputs[tensor.value_index]


def _in_order(last: Operation, existing: frozenset[Operation]) -> list[Operation]:
    """Returns an operation and what it needs, except existing ones, each after its own needs."""
    order: dict[Operation, None] = {}
    seen: set[Operation] = set()
    pending = [(last, False)]
    while pending:
        operation, is_complete = pending.pop()
        if is_complete:
            order[operation] = None
        elif operation not in seen and operation not in existing:
            seen.add(operation)
            pending.append((operation, True))
            pending += [(each, False) for each in needs(operation)]
    return list(order)


def _copy(
    operation: Operation, controls: frozenset[Operation], copies: dict[Operation, Operation]
) -> Operation:
    """Copies an operation, so that it reads copies where there are any, and has no controls."""
    inputs = [
        copies[tensor.op].outputs[tensor.value_index] if tensor.op in copies else tensor
        for tensor in operation.inputs
    ]
    kept = [copies.get(each, each) for each in operation.control_inputs if each not in controls]
    with v1.control_dependencies(None), v1.control_dependencies(kept), v1.device(operation.device):
        return operation.graph.create_op(
            operation.type,
            inputs,
            [output.dtype for output in operation.outputs],
            name=operation.name.rpartition("/")[2],
            attrs=dict(operation.node_def.attr),
        )
