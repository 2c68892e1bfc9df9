"""The variables that K-FAC owns: how they are named, made, read and assigned.

They are plain non-trainable global variables with absolute names below `kfac/`, so that a
checkpoint depends neither on the scope in which the optimizer is called nor on custom getters of
the model. They are resource variables, also where those of the model are reference variables: these
take three operations to be read, and cannot be assigned in a functional branch. Called by factors,
estimator and optimizer.
"""

import contextlib
import math
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kfac._types import DType, Graph, Operation, Tensor, Variable
from kfac.linalg.shared import made_once, shared_constant
from kfac.variables import components_of, is_resource
from kfac.xla import as_around, is_compiled

v1 = tf.compat.v1

CPU = "/device:CPU:0"
"""Device of counters and conditions. The CPU decides which ops of a step run."""

Nest = Any
"""A Tensor, or a nested structure of Tensors."""

ROOT = "kfac"

_CONDITION_OPS = frozenset({"Identity", "Merge", "Switch"})

_FEW = 16
"""Entries up to which zeros are kept as a constant."""

_EMPTY_DTYPES = (tf.float32, tf.float64, tf.int64)
"""Dtypes of which every device makes zeros by one operation."""


class Assignment(NamedTuple):
    """A variable and the value that it is to take."""

    variable: Variable
    value: Tensor


class Addition(NamedTuple):
    """A variable and what is to be added to it, at once: others may add at the same time."""

    variable: Variable
    value: Tensor


Change = Assignment | Addition


class OptionalState(NamedTuple):
    """State that a checkpoint may lack, as `kfac.protocols.OPTIONAL_STATE` keeps it.

    Attributes:
      owner: Name of what has the state, for messages.
      state: Its variables.
    """

    owner: str
    state: Sequence[Variable]

    def get_name(self) -> str:
        """Returns the name of the owner."""
        return self.owner

    def variables(self) -> list[Variable]:
        """Returns the variables."""
        return list(self.state)


def make_variable(
    name: str,
    shape: Sequence[int],
    dtype: DType,
    device: str = "",
    initial: float | Callable[[], Tensor] = 0.0,
) -> Variable:
    """Makes a non-trainable variable of static shape called `kfac/<name>`.

    The device "" leaves its place to the surrounding device scope. `initial` is what all its
    entries start with, or a function that returns its first value.
    """

    def first_value() -> Tensor:
        if callable(initial):
            return initial()
        if initial == 0:
            return shared_zeros(shape, dtype, device)
        return tf.fill(shape, tf.cast(tf.constant(initial, tf.float64), dtype))

    with v1.name_scope(None), v1.device(device):
        return v1.Variable(
            first_value, trainable=False, name=f"{ROOT}/{name}", dtype=dtype, use_resource=True
        )


def initial_zeros(shape: Sequence[int], dtype: DType) -> Tensor:
    """Returns zeros of a static shape for a variable to begin with.

    TensorFlow would keep zeros that it knew beforehand, as a constant of the graph. So only a few
    are one, and variables share it.
    """
    if math.prod(shape) <= _FEW:
        return shared_constant(0, shape, dtype)
    if dtype in _EMPTY_DTYPES:
        return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)
    zero = tf.raw_ops.Empty(shape=[], dtype=tf.float32, init=True)
    return tf.fill(shape, tf.cast(zero, dtype))


def shared_zeros(shape: Sequence[int], dtype: DType, device: str) -> Tensor:
    """Returns the zeros that all resource variables of a static shape and a device begin with.

    Until they are assigned they have their memory in common, and none is filled for each of them.
    """
    key = "zeros", tuple(shape), dtype
    return made_once(key, device, lambda: initial_zeros(shape, dtype))


def make_counter(name: str, device: str = "") -> Variable:
    """Makes an int64 variable [] that starts at zero, called `kfac/<name>`.

    The device "" means the CPU, where ops are chosen by it.
    """
    return make_variable(name, [], tf.int64, device or CPU)


def make_transient(name: str, dtype: DType) -> Variable:
    """Makes a variable [] of no collection, which is neither saved nor initialized.

    So it has no value in a new session.
    """
    return v1.Variable(
        lambda: tf.zeros([], dtype), trainable=False, collections=[], name=name, use_resource=True
    )


def group(*operations: Operation, name: str | None = None) -> Operation:
    """Returns an op that follows others. It is on the CPU: no device waits for the first."""
    with v1.device(CPU):
        return tf.group(*operations, name=name)


@contextlib.contextmanager
def _device_of(variable: Variable) -> Iterator[None]:
    """Ops on a variable must sit where it does, whatever device scope is active."""
    with v1.device(None), v1.device(variable.device):
        yield


def read(variable: Variable, copies: bool = True) -> Tensor:
    """Reads a variable now, that is, after the active control dependencies.

    A value that is read from a reference variable shares the variable's memory: a later assignment
    in the same step would change it. So it is copied. A check if the copy is finite would skip the
    copy, and look at the variable without waiting. The check of the shape prevents that. `copies`
    is false if the only op that takes the value makes a new Tensor of it, and what changes the
    variable waits for that.
    """
    with _device_of(variable):
        if is_resource(variable):
            dtype = variable.dtype.base_dtype
            value = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=dtype)
            value.set_shape(variable.shape)
            return value
        if not copies:
            return variable.read_value()
        copy = tf.raw_ops.DeepCopy(x=variable.read_value())
        return tf.ensure_shape(copy, variable.shape)


def assign_all(changes: Sequence[Change], name: str | None = None) -> Operation:
    """Returns one op that makes all the changes."""
    done = []
    for change in changes:
        for variable in components_of(change.variable):
            adds, value = isinstance(change, Addition), change.value
            with _device_of(variable):
                if is_resource(variable):
                    # One operation: the functions of TensorFlow also read the new value.
                    raw = tf.raw_ops
                    write = raw.AssignAddVariableOp if adds else raw.AssignVariableOp
                    value = tf.convert_to_tensor(value, variable.dtype.base_dtype)
                    done.append(write(resource=variable.handle, value=value))
                elif adds:
                    done.append(v1.assign_add(variable, value, use_locking=True).op)
                else:
                    done.append(v1.assign(variable, value).op)
    return group(*done, name=name)


def run_if(condition: "Tensor | Gate | bool", make_op: Callable[[], Operation]) -> Operation:
    """Returns an op that runs another only when it is wanted.

    In a graph the operations wait for one that is dead when they are not wanted, and so do not run.
    A branch would need another operation for each Tensor and variable that they use. In a function
    they are a branch, since TensorFlow lets whatever uses the same variables later wait for them.

    Args:
      condition: bool []. A Python True means always and builds no branch. A `Gate` of the graph
        that some of the operations are behind already may take the place of its condition.
      make_op: Called once, perhaps inside a branch, so it must not make variables. What it makes
        can assign resource variables, but in a function no reference variables.
    """
    if condition is True:
        return make_op()
    if is_in_function():
        return _run_in_branch(condition, make_op)
    gate = condition if isinstance(condition, Gate) else Gate(condition)
    with gate.open():
        done = make_op()
    return gate.closed(done)


@typing.final
class Gate:
    """Operations of a graph that run only when they are wanted; see `run_if`.

    Attributes:
      otherwise: bool [], the condition, which is dead if the operations are wanted.
      wanted: bool [], the condition, which is dead if they are not. Operations that wait for a dead
        Tensor do not run.
    """

    def __init__(self, condition: Tensor, name: str = "run_if") -> None:
        """Takes their condition, bool [], and a name for it."""
        # XLA has no dead Tensors.
        self._is_compiled = is_compiled()
        if self._is_compiled:
            self.otherwise, self.wanted = condition, condition
        else:
            with v1.device(_conditions_on_cpu):
                switch = tf.raw_ops.Switch(data=condition, pred=condition, name=name)
            self.otherwise, self.wanted = switch
        self._pivot: Tensor | None = None

    def open(self) -> contextlib.AbstractContextManager[None]:
        """Returns a scope of operations that run only then. It may be opened again."""
        if self._pivot is None:
            with v1.device(_conditions_on_cpu):
                self._pivot = tf.identity(self.wanted)
        return v1.control_dependencies([self._pivot])

    def closed(self, done: Operation) -> Operation:
        """Returns an op that follows the last one, `done`, when it is wanted; else at once."""
        with v1.device(_conditions_on_cpu):
            return group(self.known_after(done))

    def known_after(self, done: Operation) -> Tensor:
        """Returns the condition, known only after an operation, but where it is false, at once.

        So what has nothing to do need not wait. Of use where only what is done waits for it.
        """
        with v1.device(_conditions_on_cpu):
            with v1.control_dependencies([done]):
                ended = tf.identity(self.wanted)
            if self._is_compiled:
                return ended
            return tf.raw_ops.Merge(inputs=[self.otherwise, ended]).output


def enclosing_graphs(graph: Graph) -> list[Graph]:
    """Returns a graph and those around it, the innermost first, whose Tensors it can read.

    The graph of a function, such as a branch of a condition or the body of a loop, is in another.
    """
    found = [graph]
    while (outer := getattr(found[-1], "outer_graph", None)) is not None:
        found.append(outer)
    return found


def is_in_function() -> bool:
    """Returns True if the graph that is being built is that of a function."""
    return bool(v1.get_default_graph().building_function)


def either(
    condition: Tensor, first: Callable[[], Sequence[Tensor]], second: Callable[[], Sequence[Tensor]]
) -> list[Tensor]:
    """Returns what one of two functions makes. The operations of the other one do not run.

    The condition, bool [], is true for the first one. Each is called once; both return Tensors of
    the same dtypes and shapes. Not to be called in a function.
    """
    gate, results = Gate(condition, "either"), []
    for branch, make in ((gate.otherwise, second), (gate.wanted, first)):
        with v1.device(_conditions_on_cpu):
            pivot = tf.identity(branch)
        with v1.control_dependencies([pivot]):
            results.append([tf.identity(tensor) for tensor in make()])
    chosen = []
    for pair in zip(*results, strict=True):
        chosen.append(tf.raw_ops.Merge(inputs=list(pair)).output)
        chosen[-1].set_shape(pair[0].shape)
    return chosen


def _run_in_branch(condition: Tensor, make_op: Callable[[], Operation]) -> Operation:
    def wanted() -> Tensor:
        with v1.control_dependencies([make_op()]), v1.device(CPU):
            return tf.constant(True)

    def otherwise() -> Tensor:
        with v1.device(CPU):
            return tf.constant(False)

    return group(value_if(condition, wanted, otherwise))


def value_if(condition: Tensor, compute: Callable[[], Nest], otherwise: Nest) -> Nest:
    """Returns Tensors that are computed only when they are wanted.

    Args:
      condition: bool [].
      compute: Called once, inside a branch, so it must not make variables. What it reads, it reads
        after the active control dependencies.
      otherwise: What to return when the condition does not hold; of the same dtypes and shapes. Or
        a function that returns it, called once inside the other branch, after `compute`.
    """
    # Ordering goes through the condition. TensorFlow drops control dependencies of a branch whose
    # other inputs have them, and then lets reads inside of the branch run too early.
    with v1.device(_conditions_on_cpu):
        condition = tf.identity(condition)

    compiled = is_compiled()

    def wanted() -> Nest:
        as_around(compiled)
        # A functional branch names its ops afresh. Without a scope these could take the names of
        # ops outside, and colocation, which goes by name, would mistake one for the other.
        with v1.name_scope(f"{ROOT}_branch"):
            return tf.nest.map_structure(tf.identity, compute())

    def unwanted() -> Nest:
        # XLA refuses a constant of the surroundings as the result of a branch.
        return otherwise() if callable(otherwise) else tf.nest.map_structure(tf.identity, otherwise)

    with v1.device(_conditions_on_cpu):
        return tf.cond(condition, wanted, unwanted)


def _conditions_on_cpu(operation: Operation) -> str:
    """Returns the CPU for an op that only hands on conditions and has no device yet.

    TensorFlow would put it on the first GPU, and what is chosen by it would wait for that.
    """
    device = str(operation.device)
    is_condition = operation.type in _CONDITION_OPS and all(
        tensor.dtype == tf.bool and tensor.shape.rank == 0 for tensor in operation.inputs
    )
    if not is_condition or v1.DeviceSpec.from_string(device).device_type:
        return device
    return device + CPU
