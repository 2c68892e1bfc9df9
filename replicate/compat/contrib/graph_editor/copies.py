"""Copies of parts of a graph, in the same graph."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.compat.contrib.graph_editor.walks import (
    get_backward_walk_ops,
    get_forward_walk_ops,
    make_list_of_op,
    make_list_of_t,
)

v1 = tf.compat.v1


class SubGraphView:
    """Part of a graph: some of its operations.

    Attributes:
      ops: The operations.
      inputs: Tensors from outside that they take, each once.
      outputs: Their tensors that others take, or nobody.
    """

    def __init__(self, ops: Any) -> None:
        """Keeps operations: one, a graph's or those of lists."""
        self.ops: list[Operation] = list(dict.fromkeys(make_list_of_op(ops)))
        own = set(self.ops)
        taken = [each for op in self.ops for each in op.inputs if each.op not in own]
        self.inputs = list({each.name: each for each in taken}.values())
        made = [each for op in self.ops for each in op.outputs]
        self.outputs = [
            each
            for each in made
            if not each.consumers() or any(op not in own for op in each.consumers())
        ]

    @property
    def graph(self) -> Any:
        """The graph, None for a view of nothing."""
        return self.ops[0].graph if self.ops else None


class TransformerInfo:
    """Copies of operations and tensors, by what they were made of."""

    def __init__(self, ops: Mapping[Operation, Operation]) -> None:
        """Keeps the copies of operations."""
        self._transformed_ops = dict(ops)
        self._transformed_ts = {
            old.ref(): new
            for before, after in ops.items()
            for old, new in zip(before.outputs, after.outputs, strict=True)
        }

    def transformed(self, original: Any, missing_fn: Any = None) -> Any:
        """Returns the copy of an operation or a tensor, or what a function returns without one."""
        if isinstance(original, v1.Operation):
            found = self._transformed_ops.get(original)
        else:
            found = self._transformed_ts.get(original.ref())
        return missing_fn(original) if found is None and missing_fn is not None else found


def sgv(*args: Any) -> SubGraphView:
    """Returns a view of operations."""
    return SubGraphView(args)


def copy(
    ops: Any, dst_scope: str = "", src_scope: str = ""
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies operations, which take the same tensors from outside.

    Args:
      ops: A view, or operations.
      dst_scope: Name scope of the copies; by default they have the old names, made unique.
      src_scope: Name scope that the names of the copies lose.

    Returns:
      (A view of the copies, the copies by what they were made of).

    Raises:
      ValueError: The operations are a loop.
    """
    return copy_with_input_replacements(ops, {}, dst_scope, src_scope)


def copy_with_input_replacements(
    ops: Any, replacement_ts: Mapping[Any, Tensor], dst_scope: str = "", src_scope: str = ""
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies operations, which take other tensors where these are replaced.

    Args:
      ops: As for `copy`.
      replacement_ts: New tensors by old ones, or by their references.
      dst_scope: As for `copy`.
      src_scope: As for `copy`.

    Returns:
      As `copy`.

    Raises:
      ValueError: The operations are a loop.
    """
    new_inputs = {_reference(old): new for old, new in replacement_ts.items()}
    copies: dict[Operation, Operation] = {}
    tensors: dict[Any, Tensor] = dict(new_inputs)
    for op in _in_order(SubGraphView(ops).ops):
        copies[op] = new = _copied(op, tensors, copies, _new_name(op, dst_scope, src_scope))
        for old, made in zip(op.outputs, new.outputs, strict=True):
            tensors.setdefault(old.ref(), made)
    return SubGraphView(list(copies.values())), TransformerInfo(copies)


def graph_replace(
    target_ts: Any, replacement_ts: Mapping[Any, Tensor], dst_scope: str = "", src_scope: str = ""
) -> Any:
    """Returns tensors as they are computed with other tensors in the place of some.

    Args:
      target_ts: A tensor, a list of them, or a dict.
      replacement_ts: New tensors by old ones, or by their references.
      dst_scope: As for `copy`.
      src_scope: As for `copy`.

    Returns:
      What `target_ts` is. Targets that do not depend on the replaced tensors stay.

    Raises:
      ValueError: There is a loop between the replaced tensors and the targets.
    """
    new = {_reference(old): tensor for old, tensor in replacement_ts.items()}
    targets = tf.nest.flatten(target_ts)
    after = get_forward_walk_ops([old.deref() for old in new])
    needed = get_backward_walk_ops(make_list_of_t(targets), within_ops=after)
    _, info = copy_with_input_replacements(needed, replacement_ts, dst_scope, src_scope)
    return tf.nest.map_structure(
        lambda each: new.get(each.ref(), info.transformed(each, lambda same: same)), target_ts
    )


def _reference(tensor: Any) -> Any:
    return tensor.ref() if hasattr(tensor, "ref") else tensor


def _in_order(ops: list[Operation]) -> list[Operation]:
    """Returns operations with each after its inputs."""
    left = dict.fromkeys(ops)
    ordered: list[Operation] = []
    while left:
        ready = [op for op in left if not any(each in left for each in _needs(op))]
        if not ready:
            raise ValueError(
                f"The operations {sorted(op.name for op in left)[:3]} are part of a loop, and "
                "loops of tf.while_loop cannot be copied."
            )
        ordered += ready
        for op in ready:
            del left[op]
    return ordered


def _needs(op: Operation) -> list[Operation]:
    return [*(each.op for each in op.inputs), *op.control_inputs]


def _new_name(op: Operation, dst_scope: str, src_scope: str) -> str:
    start = f"{src_scope.rstrip('/')}/"
    name = op.name[len(start) :] if src_scope and op.name.startswith(start) else op.name
    return f"{dst_scope.rstrip('/')}/{name}" if dst_scope else name


def _copied(
    op: Operation,
    tensors: Mapping[Any, Tensor],
    copies: Mapping[Operation, Operation],
    name: str,
) -> Operation:
    inputs = [tensors.get(each.ref(), each) for each in op.inputs]
    before = [copies.get(each, each) for each in op.control_inputs]
    attrs = {key: value for key, value in op.node_def.attr.items() if key != "_class"}
    graph = op.graph
    with (
        graph.as_default(),
        v1.name_scope(None),
        graph.control_dependencies(None),
        graph.control_dependencies(before),
        v1.device(None),
        v1.device(op.device),
    ):
        new = graph.create_op(
            op.type,
            inputs,
            [each.dtype for each in op.outputs],
            name=name,
            attrs=attrs,
            op_def=op.op_def,
        )
    for old, made in zip(op.outputs, new.outputs, strict=True):
        made.set_shape(old.shape)
    return new
