"""The variables that K-FAC owns: how they are named, made, read and assigned.

They are plain non-trainable global variables with absolute names below `kfac/`, so that a
checkpoint depends neither on the scope in which the optimizer is called nor on custom getters of
the model. They are assigned outside of conditional branches: a branch hands back values, because
a reference variable cannot be assigned in a functional branch. Called by factors, estimator and
optimizer.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Operation, Tensor, Variable

v1 = tf.compat.v1

Nest = Any
"""A Tensor, or a nested structure of Tensors."""

ROOT = "kfac"


class Assignment(NamedTuple):
    """A variable and the value that it is to take."""

    variable: Variable
    value: Tensor


def make_variable(
    name: str,
    shape: Sequence[int],
    dtype: DType,
    device: str = "",
    initial: float | Callable[[], Tensor] = 0.0,
) -> Variable:
    """Makes a non-trainable variable called `kfac/<name>`.

    Args:
      name: Path below `kfac/`.
      shape: Static shape.
      dtype: Its dtype.
      device: Where to put it; "" leaves this to the surrounding device scope.
      initial: What all its entries start with, or a function that returns its first value.
    """

    def first_value() -> Tensor:
        if callable(initial):
            return initial()
        return tf.fill(shape, tf.cast(tf.constant(initial, tf.float64), dtype))

    with v1.name_scope(None), v1.device(device):
        return v1.Variable(first_value, trainable=False, name=f"{ROOT}/{name}", dtype=dtype)


def make_counter(name: str, device: str = "") -> Variable:
    """Makes an int64 variable [] that starts at zero, called `kfac/<name>`."""
    return make_variable(name, [], tf.int64, device)


@contextlib.contextmanager
def _device_of(variable: Variable) -> Iterator[None]:
    """Ops on a variable must sit where it does, whatever device scope is active."""
    with v1.device(None), v1.device(variable.device):
        yield


def read(variable: Variable) -> Tensor:
    """Reads a variable now, that is, after the active control dependencies.

    What is read from a reference variable shares its memory, and would change with a later
    assignment in the same step. So that is copied.
    """
    with _device_of(variable):
        value = variable.read_value()
        is_resource = variable.op.type == "VarHandleOp"
        return value if is_resource else tf.raw_ops.DeepCopy(x=value)


def assign_all(assignments: Sequence[Assignment], name: str | None = None) -> Operation:
    """Returns one op that makes all the assignments."""
    ops = []
    for variable, value in assignments:
        with _device_of(variable):
            ops.append(v1.assign(variable, value).op)
    return tf.group(*ops, name=name)


def assign_if(
    condition: Tensor | bool,
    variables: Sequence[Variable],
    compute: Callable[[], Sequence[Assignment]],
) -> Operation:
    """Returns an op that assigns what `compute` returns when `condition` holds.

    Args:
      condition: bool []. A Python True means always and builds no branch.
      variables: The variables that `compute` assigns, in its order.
      compute: Called once, perhaps inside a branch, so it must not make variables.
    """
    if condition is True:
        return assign_all(compute())
    current = [read(variable) for variable in variables]
    values = value_if(condition, lambda: [value for _, value in compute()], current)
    return assign_all([Assignment(*pair) for pair in zip(variables, values, strict=True)])


def value_if(condition: Tensor, compute: Callable[[], Nest], otherwise: Nest) -> Nest:
    """Returns Tensors that are computed only when they are wanted.

    Args:
      condition: bool [].
      compute: Called once, inside a branch, so it must not make variables. What it reads, it reads
        after the active control dependencies.
      otherwise: What to return when the condition does not hold; of the same dtypes and shapes.
    """
    # Ordering goes through the condition. TensorFlow drops control dependencies of a branch whose
    # other inputs have them, and then lets reads inside of the branch run too early.
    condition = tf.identity(condition)

    def wanted() -> Nest:
        # A functional branch names its ops afresh. Without a scope these could take the names of
        # ops outside, and colocation, which goes by name, would mistake one for the other.
        with v1.name_scope(f"{ROOT}_branch"):
            return tf.nest.map_structure(tf.identity, compute())

    return tf.cond(condition, wanted, lambda: otherwise)
