"""Growth of tensors with the batch: tells sums over rows from means, by the graph alone.

If each row of a batch is repeated k times, a sum over the rows is multiplied by k, a mean stays as
it is, and the square of a sum is multiplied by k². So the degree of a tensor, the exponent of k,
follows from those of its inputs, as units of measurement do: products add degrees, quotients
subtract them, a sum over the rows adds one. A loss of degree 1 is a sum, one of degree 0 a mean.

Networks are taken to map rows to rows: the result of an operation without a rule has degree 0 if
its inputs do and the position of the rows can be seen in its shape. Else the degree is unknown.
`loss_verdicts` asks for losses.
"""

from collections.abc import Mapping
from typing import Any, final

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.tower import growth_of_structure, growth_of_values
from replicate.tower.growth import CONSTANT, Growth, Output, Rule
from replicate.tower.operation_kinds import LINKED_BY_LOOPS

_RULES: Mapping[str, Rule] = {**growth_of_values.RULES, **growth_of_structure.RULES}


@final
class BatchGrowth:
    """Growth of the tensors of one tower with its part of the batch."""

    def __init__(self, known: Mapping[Any, Growth], rows: int | None):
        """Starts from tensors whose growth is known.

        Args:
          known: Growth by the `ref()` of a tensor. The search does not go beyond these.
          rows: Rows of the tower's part of the batch; None if that is not known.
        """
        self._known: dict[Any, Growth | None] = dict(known)
        self._rows = rows

    def tell(self, tensor: Tensor, growth: Growth) -> None:
        """Notes the growth of a tensor, in place of what its operation tells."""
        self._known[tensor.ref()] = growth

    def of(self, tensor: Tensor) -> Growth | None:
        """Returns the growth of a tensor; None if the graph does not tell."""
        pending = [tensor]
        while pending:
            top = pending[-1]
            if top.ref() in self._known:
                pending.pop()
                continue
            missing = [each for each in self._inputs(top.op) if each.ref() not in self._known]
            if missing:
                pending += missing
            else:
                pending.pop()
                self._known[top.ref()] = self._computed(top)
        return self._known[tensor.ref()]

    def _inputs(self, operation: Operation) -> list[Tensor]:
        """Returns the inputs that are looked at. Loops of control flow version 1 are not."""
        return [] if operation.type in LINKED_BY_LOOPS else list(operation.inputs)

    def _computed(self, tensor: Tensor) -> Growth | None:
        operation = tensor.op
        output = Output(tensor, self._rows)
        if operation.type in LINKED_BY_LOOPS:
            return output.located(0)
        found = [self._known[each.ref()] for each in operation.inputs]
        inputs = [each for each in found if each is not None]
        if len(inputs) < len(found):
            return None
        if all(each == CONSTANT for each in inputs):
            return Growth(1) if self._is_size_of_batch(tensor) else self._of_number(tensor)
        growth = _RULES.get(operation.type, Output.of_network)(output, inputs)
        has_lost = growth and not growth.constants and any(each.constants for each in inputs)
        return None if has_lost else growth

    def _of_number(self, tensor: Tensor) -> Growth:
        """Returns the growth of one number repeated: for each row, if there are as many as rows."""
        shape = tensor.shape.as_list() if tensor.shape.rank else [None]
        if self._rows is None or self._rows < 2 or shape[0] != self._rows:
            return CONSTANT
        value = tf.get_static_value(tensor)
        is_repeated = value is not None and bool((value == value.flat[0]).all())
        return Growth(axis=-len(shape)) if is_repeated else CONSTANT

    def _is_size_of_batch(self, tensor: Tensor) -> bool:
        """Returns True for an entry of a shape that TensorFlow has made a constant."""
        operation = tensor.op
        if operation.type != "StridedSlice" or self._rows is None or tensor.shape.rank != 0:
            return False
        shape, begin = (tf.get_static_value(each) for each in operation.inputs[:2])
        is_vector = shape is not None and begin is not None and shape.ndim == 1 == begin.size
        return bool(is_vector and shape[int(begin[0])] == self._rows)
