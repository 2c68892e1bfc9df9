"""The part of a graph that some tensors depend on, and the uses of variables in it.

A variable is rarely used itself: it is read, copied, cast, reshaped or passed into a loop. Each of
these ops gives the same numbers in the same order, so the search looks through it. The first op of
another kind is a use. Called by registration, to compare uses with what was registered, and by the
graph scanner.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable
from kfac.variables import handles_of

_COPIES = frozenset(
    {
        "Cast",
        "Enter",
        "ExpandDims",
        "Identity",
        "IdentityN",
        "ReadVariableOp",
        "RefEnter",
        "Reshape",
        "Squeeze",
    }
)
"""Types of ops whose output has the numbers of an input, in their order.

All but `IdentityN` take it as input 0 and have one output.
"""

_STOPS = frozenset({"OnesLike", "StopGradient", "ZerosLike"})
"""Types of ops with floating-point outputs that pass no gradient back."""


class Use(NamedTuple):
    """One op that takes a tensor as an input, with the number of the input.

    `in_loop` is true inside a `while` loop of the kind that is part of the graph.
    """

    op: Operation
    position: int
    in_loop: bool = False

    @property
    def value(self) -> Tensor:
        """The tensor; for a variable, the last copy of its numbers."""
        return self.op.inputs[self.position]


class SubGraph:
    """All ops that some tensors depend on, in a way that gradients can follow.

    An op that stops gradients, or makes integers of floating-point numbers, is a member, but the
    ops before it are not.
    """

    def __init__(self, outputs: Iterable[Tensor]) -> None:
        """Walks back from the outputs, tensors of one graph, once."""
        waiting = list(outputs)
        found = {tensor.ref() for tensor in waiting}
        self._members = set()
        self._passing = set()
        while waiting:
            tensor = waiting.pop()
            op = tensor.op
            self._members.add(op)
            is_passing = not _is_discrete(tensor.dtype) and op.type not in _STOPS
            if is_passing:
                self._passing.add(op)
            for taken in op.inputs:
                if taken.ref() not in found and (is_passing or _is_discrete(taken.dtype)):
                    found.add(taken.ref())
                    waiting.append(taken)

    def is_member(self, node: Any) -> bool:
        """Returns True if the outputs depend on an operation, Tensor or Variable."""
        return (node if isinstance(node, tf.Operation) else node.op) in self._members

    def filter_list(self, nodes: Sequence[Any]) -> list[Any]:
        """Returns the members among some operations, Tensors or Variables."""
        return [node for node in nodes if self.is_member(node)]

    def consumers(self, tensor: Tensor) -> list[Use]:
        """Returns the uses of a tensor that pass a gradient back."""
        return [
            Use(op, position)
            for op in dict.fromkeys(tensor.consumers())
            if op in self._passing
            for position, taken in enumerate(op.inputs)
            if taken is tensor
        ]

    def uses(self, variable: Variable) -> list[Use]:
        """Returns the uses of a variable, looking through copies of its numbers."""
        return [use for use in self._walk(variable) if not _is_copy(use)]

    def copies(self, variable: Variable) -> list[Tensor]:
        """Returns all tensors that have a variable's numbers, in their order."""
        return [
            *handles_of(variable),
            *(use.op.outputs[use.position] for use in self._walk(variable) if _is_copy(use)),
        ]

    def variable_uses(self, variable: Variable) -> int:
        """Returns the number of op inputs that a variable enters, looking through copies of it."""
        return len(self.uses(variable))

    def _walk(self, variable: Variable) -> Iterator[Use]:
        waiting = [(handle, False) for handle in handles_of(variable)]
        while waiting:
            tensor, in_loop = waiting.pop()
            for use in self.consumers(tensor):
                yield use._replace(in_loop=in_loop)
                if _is_copy(use):
                    copy = use.op.outputs[use.position]
                    waiting.append((copy, in_loop or use.op.type in {"Enter", "RefEnter"}))


def _is_discrete(dtype: DType) -> bool:
    base = dtype.base_dtype
    return base.is_integer or base.is_bool or base == tf.string


def _is_copy(use: Use) -> bool:
    if use.op.type == "StridedSlice":
        return use.position == 0 and _keeps_all(use.op)
    return use.op.type in _COPIES and use.position < len(use.op.outputs)


def _keeps_all(slicing: Operation) -> bool:
    """Returns True if a slice only adds axes, like x[:, None]."""
    size, steps = slicing.inputs[0].shape.num_elements(), tf.get_static_value(slicing.inputs[3])
    is_forward = steps is not None and bool((steps == 1).all())
    return is_forward and size is not None and slicing.outputs[0].shape.num_elements() == size
