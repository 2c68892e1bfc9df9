"""Operations made many at a time: described first, then added to the graph together.

One by one, most of the time goes to what TensorFlow does in Python for each; together, each takes
a third of that. It is worth its words where there are hundreds of the same kind. Devices, control
dependencies and the name scope that are active when they are made apply as ever; whether XLA may
compile them is not asked, so that it does not. Called by `variable_copies` and
`finite_gradients`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


class DescribedOperations:
    """Operations that are to be made, which may take from each other what they compute."""

    def __init__(self) -> None:
        """Begins with none."""
        self._described = tf.Graph().as_graph_def()
        self._given: dict[str, Tensor] = {}
        self._keys: dict[Any, str] = {}
        """Reference of a tensor of the graph → what it is called among the inputs."""

    def add(
        self,
        kind: str,
        name: str,
        inputs: Iterable[Tensor | str] = (),
        device: str = "",
        after: str | None = None,
        **attributes: Any,
    ) -> str:
        """Describes an operation.

        Args:
          kind: Its type, such as "Identity".
          name: Its name in the name scope, different from that of the others. A number is added to
            it if the graph has it already.
          inputs: Tensors of the graph, or names of results of operations described before:
            "name", or "name:1" for another result than the first.
          device: Where it runs, as far as the scopes leave that open.
          after: The name of an operation described before that it has to wait for.
          **attributes: Types, shapes and strings that its type asks for.

        Returns:
          `name`.
        """
        node = self._described.node.add(op=kind, name=name, device=device)
        node.input.extend(
            each if isinstance(each, str) else self._input_of(each) for each in inputs
        )
        if after is not None:
            node.input.append(f"^{after}")
        for key, value in attributes.items():
            node.attr[key].CopyFrom(_attribute(value))
        return name

    def make(self, results: Sequence[str]) -> list[Any]:
        """Makes what was described, in the scopes that are active.

        Args:
          results: Names of operations, or of tensors ("name:0").

        Returns:
          These, in order.
        """
        scope = v1.get_default_graph().get_name_scope()
        made = tf.graph_util.import_graph_def(
            self._described,
            input_map=self._given,
            return_elements=list(results),
            name=f"{scope}/" if scope else "",
        )
        return list(made)

    def _input_of(self, tensor: Tensor) -> str:
        key = self._keys.setdefault(tensor.ref(), f"given_{len(self._keys)}")
        self._given[f"{key}:0"] = tensor
        return key


def _attribute(value: tf.DType | tf.TensorShape | str | int) -> Any:
    if isinstance(value, tf.DType):
        return v1.AttrValue(type=value.as_datatype_enum)
    if isinstance(value, tf.TensorShape):
        return v1.AttrValue(shape=value.as_proto())
    if isinstance(value, str):
        return v1.AttrValue(s=value.encode())
    return v1.AttrValue(i=value)
