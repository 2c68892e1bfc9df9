"""Records of a layer: its variables, losses, updates and calls."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf


class Call(NamedTuple):
    """Inputs and outputs of one call of a layer: Tensors, or nests of them."""

    inputs: Any
    outputs: Any


class Records:
    """Records of one layer, as lists in the order of their making.

    Attributes:
      trained: Variables that are trained if the layer is.
      fixed: Other variables.
      losses: Tensors.
      updates: Operations.
      calls: Calls of the layer.
    """

    def __init__(self) -> None:
        self.trained: list[Any] = []
        self.fixed: list[Any] = []
        self.losses: list[Any] = []
        self.updates: list[Any] = []
        self.calls: list[Call] = []

    def copy(self) -> "Records":
        """Returns records with lists of their own, and the same entries."""
        new = Records()
        for name, entries in vars(self).items():
            vars(new)[name] = list(entries)
        return new

    def only_call(self, layer: str, attribute: str) -> Call:
        """Returns the call of a layer that was called once.

        Raises:
          AttributeError: It was not called, or several times.
        """
        if len(self.calls) != 1:
            raise AttributeError(
                f"Layer {layer} has no {attribute}: it was called {len(self.calls)} times, and "
                "only a layer that was called once has one."
            )
        return self.calls[0]

    def only_shape(self, layer: str, attribute: str, part: str) -> Any:
        """Returns the shape of all inputs, or of all outputs, of a layer, as tuples.

        Raises:
          AttributeError: The layer was not called, or its calls have different shapes.
        """
        shapes = [tf.nest.map_structure(_shape_of, getattr(call, part)) for call in self.calls]
        if not shapes:
            raise AttributeError(f"Layer {layer} was never called, so it has no {attribute}.")
        if any(str(shape) != str(shapes[0]) for shape in shapes):
            raise AttributeError(f"Layer {layer} was called with different shapes: {shapes}.")
        return tf.nest.map_structure(_Shape.as_tuple, shapes[0])

    def dependent(self, entries: Iterable[Any], inputs: Any) -> list[Any]:
        """Returns losses or updates that depend on inputs; with None, on those of no call."""
        if inputs is not None:
            return [entry for entry in entries if _depends(entry, inputs)]
        all_inputs = [call.inputs for call in self.calls]
        return [entry for entry in entries if not _depends(entry, all_inputs)]


class _Shape:
    """A shape that is one entry of a nest."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape

    def __repr__(self) -> str:
        return str(self.as_tuple())

    def as_tuple(self) -> Any:
        return None if self._shape.rank is None else tuple(self._shape.as_list())


def _shape_of(value: Any) -> _Shape:
    return _Shape(tf.TensorShape(getattr(value, "shape", None)))


def _depends(entry: Any, inputs: Any) -> bool:
    """Returns True if a Tensor or an operation is computed from one of the inputs."""
    components = tf.nest.flatten(inputs, expand_composites=True)
    sources = {id(getattr(each, "op", None)) for each in components} - {id(None)}
    left = [getattr(entry, "op", entry)]
    seen = {id(left[0])}
    while left:
        operation = left.pop()
        if id(operation) in sources:
            return True
        needed = [each.op for each in operation.inputs] + list(operation.control_inputs)
        for each in needed:
            if id(each) not in seen:
                seen.add(id(each))
                left.append(each)
    return False
