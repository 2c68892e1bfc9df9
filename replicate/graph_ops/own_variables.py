"""Variables that training keeps beside those of a model, and copies that share no memory."""

from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable

v1 = tf.compat.v1


def own_variable(name: str, value: Any, collection: str) -> Variable:
    """Makes a resource variable outside of the scopes and control dependencies of its place.

    Args:
      name: Its name in checkpoints.
      value: Initial value, a Tensor or a function that returns one.
      collection: Key of the graph's only collection that gets it.
    """
    with v1.control_dependencies(None), v1.name_scope(None):
        return v1.Variable(
            value, trainable=False, collections=[collection], use_resource=True, name=name
        )


def deep_copy(variable: Variable) -> Tensor:
    """Returns a value in memory of its own: a variable of TensorFlow 1 changes in place."""
    return tf.raw_ops.DeepCopy(x=variable.read_value())


def assign_copy(target: Variable, source: Variable) -> Operation:
    """Returns the operation that gives a variable a copy of another one's value."""
    with v1.device(target.device):
        return v1.assign(target, deep_copy(source)).op
