"""One tower's part of the graph, and the tensors that carry each parameter's numbers.

Answers all questions of the matchers about the graph. Made once per tower, in time linear in its
size.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Scalar, Tensor, Variable
from kfac.graph_search.records import MatchRecord, RecordType
from kfac.linalg.tensor_ops import static_size
from kfac.registration.subgraph import SubGraph, Use
from kfac.variables import handles_of, is_captured

v1 = tf.compat.v1

_ENDS = frozenset({"Cast", "IteratorGetNext", "OptionalGetValue"})
"""Types of ops that make integers, such as ids, where the subgraph ends: what they give is data."""

_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})


class Tower:
    """The ops between parameters and the inputs of the losses of one tower.

    `variables` are the parameters that the losses depend on, in the given order; `unreached` are
    the others. `finds_positions` is true if tables that are the same for every example are matched.
    `sharing_of` returns what matches note of a weight that may be shared along positions.
    """

    def __init__(
        self,
        loss_inputs: Sequence[Tensor],
        variables: Iterable[Variable],
        finds_positions: bool = False,
        sharing_of: Callable[[Variable], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        self.finds_positions = finds_positions
        self.sharing_of = sharing_of
        self.subgraph = SubGraph(loss_inputs)
        self._loss_inputs = tuple(loss_inputs)
        self._ends = frozenset(tensor.ref() for tensor in loss_inputs)
        everything = tuple(variables)
        self._uses = {v.ref(): self.subgraph.uses(v) for v in everything}
        self.variables = tuple(v for v in everything if self._uses[v.ref()])
        self.unreached = tuple(v for v in everything if not self._uses[v.ref()])
        self._owners = {t.ref(): v for v in self.variables for t in self.subgraph.copies(v)}
        operations = loss_inputs[0].graph.get_operations()
        members = [op for op in operations if self.subgraph.is_member(op)]
        self._order = {op: place for place, op in enumerate(members)}
        trainable = loss_inputs[0].graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)
        self._parameters = frozenset(
            handle.op for variable in (*everything, *trainable) for handle in handles_of(variable)
        )
        self._of_variables = _of_variables(members, self._is_data)

    def uses(self, variable: Variable) -> list[Use]:
        """Returns the uses of a parameter, in the order in which the graph was built."""
        return sorted(self._uses[variable.ref()], key=lambda use: self._order[use.op])

    def variable_of(self, tensor: Tensor) -> Variable | None:
        """Returns the parameter that a tensor is a copy of, or None."""
        return self._owners.get(tensor.ref())

    def match(
        self,
        kind: RecordType,
        variable: Variable,
        use: Use,
        data: Mapping[str, Any],
        *tensors: Tensor,
    ) -> MatchRecord:
        """Returns the match of a layer at the op that its parameter enters.

        It covers the copies of the parameter there, the op's output, and further tensors.
        """
        op = use.op
        seen = (*handles_of(variable), use.value, op.outputs[0], *tensors)
        return MatchRecord(kind, variable, seen, data, self._order[op], f"{op.type} {op.name!r}")

    def only_consumer(self, tensor: Tensor) -> Use | None:
        """Returns the only use of a tensor; None if it has none, several, or is used by a loss."""
        found = self.subgraph.consumers(tensor)
        return found[0] if len(found) == 1 and tensor.ref() not in self._ends else None

    def is_of_variables(self, tensor: Tensor) -> bool:
        """Returns True if a tensor is computed from variables, and from no data."""
        return tensor.op in self._of_variables

    def is_by_example(self, tensor: Tensor) -> bool:
        """Returns True if a tensor's first axis can be that of examples, or a multiple of it."""
        rows = self.static_rows()
        size = static_size(tensor, 0) if tensor.shape.rank else None
        return size is None or rows is None or size % rows == 0

    def static_rows(self) -> int | None:
        """Returns the number of rows on which the losses' inputs agree, if it is static."""
        sizes = self._static_sizes()
        return sizes.pop() if len(sizes) == 1 else None

    def rows(self) -> Scalar | None:
        """Returns the number of rows of the losses' inputs, an int or a Tensor [].

        Returns None if an input has no rows, or if inputs have different static numbers of rows.
        """
        first, sizes = self._loss_inputs[0], self._static_sizes()
        if len(sizes) > 1 or any(tensor.shape.rank == 0 for tensor in self._loss_inputs):
            return None
        if sizes:
            return sizes.pop()
        with v1.name_scope("kfac/scanned/"), v1.device(first.device):
            return tf.shape(first)[0]

    def _is_data(self, source: Operation) -> bool:
        """Returns True if an op without inputs is data.

        Data are inputs of the graph, constants other than single numbers and integers, and
        variables that hold a batch.
        """
        if source.type in _VARIABLES:
            return self._holds_batch(source)
        if is_captured(source):
            return False
        if source.type != "Const":
            return True
        constant = source.outputs[0]
        return bool(constant.dtype.is_floating) and constant.shape.rank != 0

    def _holds_batch(self, source: Operation) -> bool:
        """Returns True if a variable is no parameter and has rows for the examples.

        The variable may hold the batch of all towers. Vectors are assumed to be averages, such as
        those of batch normalization.
        """
        rows, shape = self.static_rows(), tf.TensorShape(source.get_attr("shape"))
        if source in self._parameters or rows in (None, 1) or not shape.rank or shape.rank < 2:
            return False
        return bool(shape[0]) and shape[0] % rows == 0

    def _static_sizes(self) -> set[int]:
        """Returns all static sizes of the first axis of the losses' inputs."""
        with_axes = (tensor for tensor in self._loss_inputs if tensor.shape.rank)
        sizes = (static_size(tensor, 0) for tensor in with_axes)
        return {size for size in sizes if size is not None}


def _of_variables(
    operations: Sequence[Operation], is_data: Callable[[Operation], bool]
) -> frozenset[Operation]:
    """Returns the ops that depend on variables but not on data, of all that the losses depend on.

    Operations come in the order of the graph. `is_data` decides about those without inputs.
    """
    with_data: set[Operation] = set()
    with_variables: set[Operation] = set()
    members = set(operations)
    for op in operations:
        inputs = {tensor.op for tensor in op.inputs}
        is_cut = op.type in _ENDS and not inputs <= members
        if inputs & with_data or is_cut or (not inputs and is_data(op)):
            with_data.add(op)
        elif inputs & with_variables or op.type in _VARIABLES or is_captured(op):
            with_variables.add(op)
    return frozenset(with_variables)
