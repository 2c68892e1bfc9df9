"""Copies of variables: local variables, on any device, that begin as other variables are.

There is one for each moving average and tower, so that each is made of as few operations as a
variable can be: its handle, its initialization, and what is read when it is fetched. Who writes to
the copies, and when they are brought together, is the business of `batch_statistics`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor, Variable

v1 = tf.compat.v1


class VariableCopies:
    """Makes copies in one graph. What they begin with is computed once for each variable."""

    def __init__(self) -> None:
        """Begins with none."""
        self._begin: dict[Any, Tensor] = {}
        """Reference of a variable → what copies of it begin as."""
        self._pattern: Variable | None = None
        """A variable that nobody uses; the copies are made like it."""

    def on(self, device: str, variables: Sequence[Variable], name: str) -> list[Variable]:
        """Makes a copy of each variable.

        Args:
          device: Where the copies live.
          variables: What to copy.
          name: Last part of the copies' names; the variable's name comes before it.

        Returns:
          Resource variables, entered in LOCAL_VARIABLES, in the order of `variables`.
        """
        with v1.control_dependencies(None), v1.name_scope(None):
            values = [self._value_at_start(variable) for variable in variables]
            with v1.device(device):
                return [
                    self._new(f"{variable.op.name}/{name}", value)
                    for variable, value in zip(variables, values, strict=True)
                ]

    def packed(self, device: str, variables: Sequence[Variable], name: str) -> Variable:
        """Makes one copy of several variables of the same shape.

        Args:
          device: Where it lives.
          variables: What to copy, [...] each.
          name: Of the copy.

        Returns:
          A local variable, [variables, ...].
        """
        with v1.control_dependencies(None), v1.name_scope(None), v1.device(device):
            value = tf.stack([self._value_at_start(variable) for variable in variables])
            return self._new(name, value)

    def _new(self, name: str, value: Tensor) -> Variable:
        if self._pattern is None:
            self._pattern = v1.Variable(
                0.0, trainable=False, collections=[], name="pattern", use_resource=True
            )
        variable = _variable_like(self._pattern, name, value)
        v1.add_to_collection(v1.GraphKeys.LOCAL_VARIABLES, variable)
        return variable

    def _value_at_start(self, variable: Variable) -> Tensor:
        if variable.ref() not in self._begin:
            with v1.device(variable.device), v1.name_scope("begin"):
                value = _value_or_initial(variable)
            value.set_shape(variable.shape)
            self._begin[variable.ref()] = value
        return self._begin[variable.ref()]


def read(variable: Variable) -> Tensor:
    """Reads a variable of either kind, by as few operations as that takes."""
    if is_resource(variable):
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    # What is read of a reference variable is its memory, which later assignments write to.
    return tf.raw_ops.DeepCopy(x=variable.read_value())


def is_resource(variable: Variable) -> bool:
    """Whether this is a resource variable; else it is a reference variable."""
    return hasattr(variable, "handle")


def _variable_like(pattern: Variable, name: str, value: Tensor) -> Variable:
    """Makes a resource variable from its parts, in a third of the time its constructor takes.

    That also rewrites initial values that come from other variables, here for the worse.

    Args:
      pattern: A resource variable, from which the new one differs in name and initial value.
      name: Of the variable; a number is added to it if it is taken.
      value: What it begins with.
    """
    name = v1.get_default_graph().unique_name(name, mark_as_used=False)
    handle = tf.raw_ops.VarHandleOp(
        shape=value.shape, dtype=value.dtype, shared_name=name, name=name
    )
    assign = tf.raw_ops.AssignVariableOp(resource=handle, value=value, name=f"{name}/Assign")
    snapshot = tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype, name=f"{name}/Read")
    description = pattern.to_proto()
    description.variable_name = handle.name
    description.initial_value_name = value.name
    description.initializer_name = assign.name
    description.snapshot_name = snapshot.name
    return type(pattern).from_proto(description)


def _value_or_initial(variable: Variable) -> Tensor:
    """The value of a variable, or what it is initialised to where that has not happened yet.

    A dead branch in place of `tf.cond`, which takes 20 times as long to build.
    """
    is_set = v1.is_variable_initialized(variable)
    initial, _ = tf.raw_ops.Switch(data=variable.initial_value, pred=is_set)
    if is_resource(variable):
        _, handle = tf.raw_ops.Switch(data=variable.handle, pred=is_set)
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)
    else:
        _, chosen = tf.raw_ops.Switch(data=is_set, pred=is_set)
        with v1.control_dependencies([tf.identity(chosen)]):
            value = read(variable)
    return tf.raw_ops.Merge(inputs=[initial, value]).output
