"""Functions of tensors, shapes, cells and variables that TensorFlow's private modules had."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor, Variable

v1 = tf.compat.v1


def convert_to_tensor_v2(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor:
    """Makes a Tensor of a value, with the arguments of `tf.convert_to_tensor` in TensorFlow 2."""
    return tf.convert_to_tensor(value, dtype, dtype_hint, name)


def scalar() -> Any:
    """Returns the static shape []."""
    return v1.TensorShape([])


def vector(length: int | None) -> Any:
    """Returns the static shape [length]."""
    return v1.TensorShape([length])


def matrix(rows: int | None, cols: int | None) -> Any:
    """Returns the static shape [rows, cols]."""
    return v1.TensorShape([rows, cols])


def like_rnncell(cell: Any) -> bool:
    """Returns True for an object that can be called and has the members of an RNN cell."""
    members = ("output_size", "state_size", "zero_state")
    return callable(cell) and all(hasattr(cell, member) for member in members)


def variable_to_proto(variable: Variable, export_scope: str | None = None) -> Any:
    """Returns the VariableDef of a variable."""
    return variable.to_proto(export_scope=export_scope)


def variable_from_proto(variable_def: Any, import_scope: str | None = None) -> Variable:
    """Returns the variable of the default graph that a VariableDef describes."""
    return v1.Variable.from_proto(variable_def, import_scope=import_scope)
