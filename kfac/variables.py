"""The variables of a model, as a graph sees them: their names and their handles.

In a `tf.Graph` a variable is made by an op of the graph. In the graph of a `tf.function` it comes
from outside, and the graph has captured its handle: `CapturedVariable` is the variable as that
graph sees it. The rest of the package names variables by `name_of` and follows them by
`handles_of`, so it works in both. Called by registration, the graph scanner and the step.
"""

import typing
from collections.abc import Iterable, Sequence

import tensorflow as tf

from kfac._types import DType, Graph, Operation, Tensor, Variable


@typing.final
class CapturedVariable:
    """A variable from outside of a `tf.function`, as the function's graph sees it.

    A variable that is mirrored on several devices has a component for each. All have the same
    value, and each tower reads its own. It is compared by identity, so it can be a key. Functions
    of TensorFlow take it as a resource variable, its first component.

    Attributes:
      components: The `tf.Variable` of each device.
      handles: Their handles in the graph, Tensors.
      name: Its name, unique among those of the model, with ":0" at the end.
    """

    _should_act_as_resource_variable = True

    def __init__(self, components: Sequence[Variable], graph: Graph, name: str) -> None:
        """Captures the handles in the graph of a function, a FuncGraph."""
        self.components = tuple(components)
        self.handles = tuple(graph.capture(component.handle) for component in components)
        self.name = f"{name}:0"

    @property
    def handle(self) -> Tensor:
        """The handle of the first component."""
        return self.handles[0]

    @property
    def op(self) -> Operation:
        """The op of the handle."""
        return self.handle.op

    @property
    def dtype(self) -> DType:
        """Dtype of the variable."""
        return self.components[0].dtype

    @property
    def shape(self) -> tf.TensorShape:
        """Static shape of the variable."""
        return self.components[0].shape

    @property
    def device(self) -> str:
        """Device of the first component."""
        return str(self.components[0].device)

    @property
    def graph(self) -> Graph:
        """The graph of the function."""
        return self.handle.graph

    def ref(self) -> "CapturedVariable":
        """Returns a key for dictionaries: itself."""
        return self

    def read_value(self) -> Tensor:
        """Returns its value, read now."""
        return self.components[0].read_value()

    def __tf_tensor__(self, dtype: DType | None = None, name: str | None = None) -> Tensor:
        """Returns its value; called by `tf.convert_to_tensor`."""
        return tf.convert_to_tensor(self.components[0], dtype, name=name)


_READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"})


def is_captured(source: Operation) -> bool:
    """Returns True if an op is a variable from outside of the graph of a function.

    Iterators and tables are resources, too, and are not read like variables.
    """
    if source.type != "Placeholder" or source.outputs[0].dtype != tf.resource:
        return False
    return any(op.type in _READS for op in source.outputs[0].consumers())


def name_of(variable: Variable) -> str:
    """Returns a variable's name, such as "dense/kernel"."""
    return str(variable.name).partition(":")[0]


def check_not_partitioned(doing: str, variables: Iterable[Variable]) -> None:
    """Checks that none of some parameters is partitioned.

    Tensors may stand in for variables. `doing` begins the message, such as "register a layer".

    Raises:
      TypeError: One is partitioned, or is neither a variable nor a Tensor.
    """
    for variable in variables:
        if hasattr(variable, "ref"):
            continue
        if not hasattr(variable, "as_tensor"):
            raise TypeError(
                f"Cannot {doing} for K-FAC with {type(variable).__name__} {variable!r} among the "
                "parameters. Accepted are variables."
            )
        raise TypeError(
            f"Cannot {doing} for K-FAC: parameter {name_of(variable)!r} is partitioned into "
            f"{len(list(variable))} variables, and K-FAC needs a layer's weights as one variable. "
            "Make it without a partitioner, or register each part: for part in variable: "
            "layers.register_generic(part, batch_size). Optimizers take list(variable)."
        )


def handles_of(variable: Variable) -> tuple[Tensor, ...]:
    """Returns the tensors of a graph that a variable is known by: its handles, or its reference."""
    if isinstance(variable, CapturedVariable):
        return variable.handles
    return (variable.op.outputs[0],)


def is_resource(variable: Variable) -> bool:
    """Returns whether a variable is a resource variable."""
    handle = getattr(variable, "handle", None)
    return handle is not None and bool(handle.dtype == tf.resource)


def components_of(variable: Variable) -> tuple[Variable, ...]:
    """Returns the variables to change where a variable changes: of a mirrored one, all of them."""
    return variable.components if isinstance(variable, CapturedVariable) else (variable,)
