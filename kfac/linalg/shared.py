"""Formulas as single operations: functions of Tensors, traced once and called in all graphs.

Repeated for each layer, the operations of a formula would make up most of K-FAC's graphs. `shared`
decorates a plain function of Tensors, numbers and variables. A call of it in a graph is one
operation, whose function all graphs of the process have in common. Also owns the Tensors that a
graph has once.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from kfac._types import DType, Tensor, Variable
from kfac.variables import is_resource
from kfac.xla import as_around, is_compiled

v1 = tf.compat.v1

Sizes: TypeAlias = tuple[int | None, ...]
"""Size of each axis of a Tensor, None where it is not known."""


def no_sizes(shape: Sizes) -> Sizes:
    """Returns a shape of the same rank of which nothing else is known."""
    return (None,) * len(shape)


def last_size(shape: Sizes) -> Sizes:
    """Returns a shape of which only the last axis is known."""
    return *no_sizes(shape[:-1]), *shape[-1:]


def all_sizes(shape: Sizes) -> Sizes:
    """Returns the shape."""
    return shape


def sizes_above(limit: int) -> Callable[[Sizes], Sizes]:
    """Returns a function from a shape to the axes of it that are larger than a limit."""

    def large(shape: Sizes) -> Sizes:
        return tuple(size if (size or 0) > limit else None for size in shape)

    return large


class Reading(NamedTuple):
    """A shared function with its arguments, which another shared function may take as one.

    Calling it calls the function. In the operation of a function that takes it, it is computed by
    that operation.
    """

    function: "SharedFunction"
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        """Returns the result of the function."""
        return self.function(*self.arguments)


@typing.final
@dataclasses.dataclass(frozen=True, eq=False)
class HeldVariable:
    """A variable in the function that an operation calls: its handle, and all that reads need."""

    handle: Tensor
    dtype: DType
    shape: tf.TensorShape
    device: str = ""


class _Traced(NamedTuple):
    """A concrete function, and the structure of its results; None if it only changes variables."""

    function: Any
    results: Any


def shared(
    function: Callable[..., Any] | None = None,
    *,
    sizes: Callable[[Sizes], Sizes] = no_sizes,
    then: Callable[[Any], Any] | None = None,
) -> Any:
    """Makes each call of a function one operation in graphs; see `SharedFunction`.

    Args:
      function: The function, defined in a module.
      sizes: Of the shape of a Tensor or variable, the sizes on which the function's operations
        depend. It is traced once for each of them, and for each dtype and rank.
      then: A function of its results that the operation calls, too, such as one that assigns them.
    """
    if function is None:
        return functools.partial(shared, sizes=sizes, then=then)
    return SharedFunction(function, sizes, then)


@typing.final
class SharedFunction:
    """A function whose calls are one operation each, where that is possible.

    Positional arguments are Tensors, variables, numbers, `Reading`s, and tuples of these; of other
    callables the results are taken. Keyword arguments are Tensors, or hashable values that are part
    of what is traced. A function that changes variables returns the operation that does.

    An operation takes variables by their handles, so these must be on one device, where it is. It
    takes numbers as Tensors: TensorFlow makes a function anew for each call that has a constant
    argument. In the graph of a function, where TensorFlow would take reads for writes, and with
    variables that are apart, a function of variables or numbers is called as it is.

    Attributes:
      function: The function itself.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        sizes: Callable[[Sizes], Sizes],
        then: Callable[[Any], Any] | None,
    ) -> None:
        self.function = function
        self._then = then
        self._sizes = sizes
        self._name = function.__name__.lstrip("_")
        self._traced: dict[Hashable, _Traced] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, device: str | None = None, **named: Any) -> Any:
        """Returns the function's results, or an operation that changes variables.

        `device` is that to read and change variables on; None means that of the variables.
        """
        tensors = {name: value for name, value in named.items() if tf.is_tensor(value)}
        static = {name: value for name, value in named.items() if name not in tensors}
        arguments = tf.nest.map_structure(self._evaluated, (arguments, tensors))
        leaves = tf.nest.flatten(arguments)
        variables = [leaf for leaf in leaves if _is_variable(leaf)]
        takes_tensors = not variables and not any(map(_is_number, leaves))
        fits = takes_tensors or (_is_in_graph() and are_together(variables, device))
        if not fits or is_compiled():
            return self._compute(*arguments[0], **named)
        if not variables:
            return self._call(arguments, leaves, static)
        with v1.device(None), v1.device(variables[0].device):
            return self._call(arguments, leaves, static)

    def _compute(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function, and the one that follows it, if there is one."""
        found = self.function(*arguments, **named)
        return found if self._then is None else self._then(found)

    def _evaluated(self, leaf: Any) -> Any:
        is_plain = callable(leaf) and not isinstance(leaf, SharedFunction)
        return leaf() if is_plain else leaf

    def _call(self, arguments: Any, leaves: Sequence[Any], static: dict[str, Hashable]) -> Any:
        given, tensors = tf.nest.map_structure(self._kind, arguments)
        key = given, *(tuple(sorted(each.items())) for each in (tensors, static))
        if key not in self._traced:
            self._traced[key] = self._trace(arguments, leaves, static)
        function, results = self._traced[key]
        dynamic = [leaf for leaf in leaves if _is_dynamic(leaf)]
        device = next((x.device for x in dynamic if not _is_number(x)), "")
        outputs = function.outputs
        reads = any(map(_is_variable, dynamic))
        call = tf.raw_ops.StatefulPartitionedCall if reads else tf.raw_ops.PartitionedCall
        found = call(
            args=[_argument(x, device) for x in dynamic],
            Tout=[output.dtype for output in outputs],
            f=function,
            name=self._name,
        )
        if results is None:
            return found
        for tensor, output in zip(found, outputs, strict=True):
            tensor.set_shape(output.shape)
        tensors = iter(found)
        return tf.nest.map_structure(lambda x: None if x is None else next(tensors), results)

    def _kind(self, leaf: Any) -> Hashable:
        """Returns all of an argument that the trace depends on."""
        if _is_number(leaf):
            return ("number",)
        if not _is_dynamic(leaf):
            return ("static", leaf)
        what = "variable" if _is_variable(leaf) else "tensor"
        # A dtype equals its number.
        return what, leaf.dtype.base_dtype.name, self._shape(leaf)

    def _shape(self, leaf: Tensor | Variable) -> Sizes | None:
        if leaf.shape.rank is None:
            return None
        return self._sizes(tuple(leaf.shape.as_list()))

    def _trace(self, arguments: Any, leaves: Sequence[Any], static: dict[str, Hashable]) -> _Traced:
        """Traces the function in a graph of its own, without devices of the caller."""
        specs = [self._spec(leaf) for leaf in leaves if _is_dynamic(leaf)]
        results = []

        def compute(*inputs: Tensor) -> list[Tensor] | None:
            as_around(compiled=False)
            given = iter(inputs)
            own = [self._inside(x, next(given)) if _is_dynamic(x) else x for x in leaves]
            positional, tensors = tf.nest.pack_sequence_as(arguments, own)
            found = self._compute(*positional, **tensors, **static)
            results.append(None if isinstance(found, tf.Operation) else found)
            flat = tf.nest.flatten(results[-1])
            return None if results[-1] is None else [x for x in flat if x is not None]

        compute.__name__ = self._name
        with tf.Graph().as_default():
            # TensorFlow must not put its operations into the graphs that call it.
            function = tf.function(
                compute, autograph=False, experimental_attributes={"_noinline": True}
            ).get_concrete_function(*specs)
        return _Traced(function, results[-1])

    def _spec(self, leaf: Any) -> tf.TensorSpec:
        if _is_number(leaf):
            return tf.TensorSpec([], tf.float64)
        if _is_variable(leaf):
            return tf.TensorSpec([], tf.resource)
        return tf.TensorSpec(self._shape(leaf), leaf.dtype)

    def _inside(self, leaf: Any, given: Tensor) -> Any:
        if not _is_variable(leaf):
            return given
        return HeldVariable(given, leaf.dtype.base_dtype, tf.TensorShape(self._shape(leaf)))


def _is_variable(leaf: Any) -> bool:
    if isinstance(leaf, (tf.Variable, HeldVariable)):
        return True
    return not isinstance(leaf, tf.Tensor) and is_resource(leaf)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (int, float)) and not isinstance(leaf, bool)


def _is_dynamic(leaf: Any) -> bool:
    return _is_variable(leaf) or _is_number(leaf) or tf.is_tensor(leaf)


def _argument(leaf: Any, device: str) -> Tensor:
    if _is_variable(leaf):
        return leaf.handle
    if not _is_number(leaf):
        return leaf

    def make() -> Tensor:
        return v1.placeholder_with_default(tf.constant(leaf, tf.float64), [])

    return made_once(("argument", float(leaf)), device, make)


def _is_in_graph() -> bool:
    """Returns True if what is being built is a graph, and not that of a function."""
    return not tf.executing_eagerly() and not v1.get_default_graph().building_function


def are_together(variables: Sequence[Variable], device: str | None = None) -> bool:
    """Returns True if there is one device, namely `device` unless it is None, for all variables.

    Counters, which are small, may be elsewhere. Reference variables are never together, as no
    operation takes their handles.
    """
    large = [variable for variable in variables if not variable.dtype.is_integer]
    devices = {_canonical(variable.device) for variable in large}
    if device is not None and variables:
        devices.add(_canonical(device))
    return len(devices) <= 1 and all(map(is_resource, variables))


def _canonical(device: str) -> str:
    return str(v1.DeviceSpec.from_string(device).to_string())


def shared_constant(value: float, shape: Sequence[int], dtype: DType, device: str = "") -> Tensor:
    """Returns a Tensor of entries equal to `value`; outside of graphs a new one.

    It waits for nothing. It is made in no name scope, and in no branch. The device "" leaves that
    to the scopes of the first call.
    """
    key = value, tuple(shape), dtype
    return made_once(key, device, lambda: tf.constant(value, dtype, list(shape)))


def made_once(key: Hashable, device: str, make: Callable[[], Tensor]) -> Tensor:
    """Returns what a function makes, the same for equal keys and devices; outside of graphs anew.

    The Tensor depends on no other. It is made as `shared_constant` is.
    """
    if tf.executing_eagerly():
        return make()
    graph = v1.get_default_graph()
    kept = graph.get_collection_ref((made_once,))
    if not kept:
        kept.append({})
    # The graph of a function begins with the collections of the graph around it.
    place = graph, key, device
    if place not in kept[0]:
        with v1.control_dependencies(None), v1.name_scope("kfac/constant/"), v1.device(device):
            kept[0][place] = make()
    return kept[0][place]
