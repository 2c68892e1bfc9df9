"""Copies of variables: local variables, on any device, initialized to the values of others.

There are many copies, one per moving average and tower, so each has as few operations as possible:
handle, initialization and read. This module also reads and assigns many variables at once.
`statistics` decides when copies are assigned and merged.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.graph_ops.described import DescribedOperations

v1 = tf.compat.v1


class VariableCopies:
    """Makes copies in one graph. Computes each variable's initial value once."""

    def __init__(self) -> None:
        self._begin: dict[Any, Tensor] = {}
        """Reference of a variable → initial value of its copies."""
        self._pattern: Variable | None = None
        """An unused variable that is the pattern of all copies."""

    def on(self, device: str, variables: Sequence[Variable], name: str) -> list[Variable]:
        """Makes a copy of each variable. `name` is added to the variable's name.

        Returns:
          Resource variables, entered in LOCAL_VARIABLES, in the order of `variables`.
        """
        with v1.control_dependencies(None), v1.name_scope(None):
            values = self._values_at_start(variables)
            names = [f"{variable.op.name}/{name}" for variable in variables]
            with v1.device(device):
                return self._new(names, values)

    def packed(self, device: str, variables: Sequence[Variable], name: str) -> Variable:
        """Makes one copy of several variables of the same shape.

        Returns:
          A local variable, [variables, ...].
        """
        with v1.control_dependencies(None), v1.name_scope(None), v1.device(device):
            (copy,) = self._new([name], [tf.stack(self._values_at_start(variables))])
            return copy

    def _new(self, names: Sequence[str], values: Sequence[Tensor]) -> list[Variable]:
        if self._pattern is None:
            self._pattern = v1.Variable(
                0.0, trainable=False, collections=[], name="pattern", use_resource=True
            )
        variables = _variables_like(self._pattern, names, values)
        v1.get_collection_ref(v1.GraphKeys.LOCAL_VARIABLES).extend(variables)
        return variables

    def _values_at_start(self, variables: Sequence[Variable]) -> list[Tensor]:
        new = [variable for variable in variables if variable.ref() not in self._begin]
        for variable, value in zip(new, _values_or_initial(new), strict=True):
            value.set_shape(variable.shape)
            self._begin[variable.ref()] = value
        return [self._begin[variable.ref()] for variable in variables]


def read_all(variables: Sequence[Variable]) -> list[Tensor]:
    """Reads resource and reference variables, each on its device, with few operations."""
    operations = DescribedOperations()
    names = [_read(operations, variable, f"read/{variable.op.name}") for variable in variables]
    return operations.make([f"{name}:0" for name in names])


def assign_all(values: Sequence[tuple[Variable, Tensor]]) -> list[Operation]:
    """Assigns (variable, new value) pairs, each on its device; returns the assignments."""
    operations = DescribedOperations()
    return operations.make([_assign(operations, *each) for each in values])


def _read(
    operations: DescribedOperations, variable: Variable, name: str, after: str | None = None
) -> str:
    state, dtype, device = _state(variable), variable.dtype.base_dtype, variable.device
    if state.dtype == tf.resource:
        return operations.add("ReadVariableOp", name, [state], device, after, dtype=dtype)
    # Reading a reference variable gives its memory, which later assignments overwrite: copy it.
    return operations.add("DeepCopy", name, [state], device, after, T=dtype)


def _assign(operations: DescribedOperations, variable: Variable, value: Tensor) -> str:
    name, inputs = f"assign/{variable.op.name}", [_state(variable), value]
    if inputs[0].dtype == tf.resource:
        return operations.add("AssignVariableOp", name, inputs, variable.device, dtype=value.dtype)
    return operations.add("Assign", name, inputs, variable.device, T=value.dtype)


def _is_set(operations: DescribedOperations, variable: Variable, name: str) -> str:
    state, device = _state(variable), variable.device
    if state.dtype == tf.resource:
        return operations.add("VarIsInitializedOp", name, [state], device)
    dtype = variable.dtype.base_dtype
    return operations.add("IsVariableInitialized", name, [state], device, dtype=dtype)


def _state(variable: Variable) -> Tensor:
    """Returns the handle of a resource variable, or the reference of a reference variable."""
    return variable.op.outputs[0]


def _values_or_initial(variables: Sequence[Variable]) -> list[Tensor]:
    """Returns the values of variables; for uninitialized ones, their initial values.

    Uses Switch and Merge instead of `tf.cond`, which takes 20 times as long to build.
    """
    operations, names = DescribedOperations(), []
    for variable in variables:
        name, device = f"begin/{variable.op.name}", variable.device
        dtype = variable.dtype.base_dtype
        is_set = _is_set(operations, variable, f"{name}/is_set")
        inputs = [variable.initial_value, is_set]
        initial = operations.add("Switch", f"{name}/initial", inputs, device, T=dtype)
        alive = operations.add("Switch", f"{name}/switch", [is_set, is_set], device, T=tf.bool)
        chosen = operations.add("Identity", f"{name}/chosen", [f"{alive}:1"], device, T=tf.bool)
        value = _read(operations, variable, f"{name}/value", after=chosen)
        names.append(operations.add("Merge", name, [initial, value], device, T=dtype, N=2))
    return operations.make([f"{name}:0" for name in names])


def _variables_like(
    pattern: Variable, names: Sequence[str], values: Sequence[Tensor]
) -> list[Variable]:
    """Makes resource variables from their parts, much faster than the constructor.

    The constructor would also rewrite initial values that depend on other variables, which is not
    wanted here.

    Args:
      pattern: A resource variable that differs from the new ones in name and initial value only.
      names: Names of the variables. A number is added to a name that is taken.
      values: Initial values.
    """
    operations, description = DescribedOperations(), pattern.to_proto()
    parts = []
    for name, value in zip(names, values, strict=True):
        unique = v1.get_default_graph().unique_name(name, mark_as_used=False)
        dtype, shape = value.dtype, value.shape
        handle = operations.add("VarHandleOp", unique, shared_name=unique, dtype=dtype, shape=shape)
        assign = operations.add(
            "AssignVariableOp", f"{unique}/Assign", [handle, value], dtype=dtype
        )
        read = operations.add("ReadVariableOp", f"{unique}/Read", [handle], dtype=dtype)
        parts += [f"{handle}:0", assign, f"{read}:0"]
    made = [part.name for part in operations.make(parts)]
    variables = []
    for handle, assign, read, value in zip(made[::3], made[1::3], made[2::3], values, strict=True):
        description.variable_name = handle
        description.initial_value_name = value.name
        description.initializer_name = assign
        description.snapshot_name = read
        variables.append(type(pattern).from_proto(description))
    return variables
