"""TensorFlow functions that are traced once per process and called in all graphs.

A computation that many matrices share is one such function. Its operations, repeated for each
matrix in each graph, would make up most of K-FAC's graphs. A shared function may also read
variables, which saves the operations that read them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Tensor


class SharedFunction:
    """A function of Tensors whose operations are in no graph that calls it.

    `compute` takes a Tensor for each spec, and returns a Tensor or a tuple of Tensors. `name` is
    that of the operations that call it. Specs of dtype `tf.resource` are handles of variables,
    which it reads only.
    """

    def __init__(
        self, compute: Callable[..., Any], specs: Sequence[tf.TensorSpec], name: str | None = None
    ) -> None:
        """Traces the function."""
        self._name = name
        self._function = traced(compute, specs)
        reads = any(spec.dtype == tf.resource for spec in specs)
        self._call = tf.raw_ops.StatefulPartitionedCall if reads else tf.raw_ops.PartitionedCall

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Returns all results, with their static shapes."""
        results = self._function.outputs
        dtypes = [result.dtype for result in results]
        found = self._call(args=inputs, Tout=dtypes, f=self._function, name=self._name)
        for tensor, result in zip(found, results, strict=True):
            tensor.set_shape(result.shape)
        return list(found)


def traced(compute: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> Any:
    """Returns a concrete function of Tensors of these specs, which TensorFlow does not inline."""
    # Tracing in its own graph keeps devices and control dependencies of the caller out.
    with tf.Graph().as_default():
        function = tf.function(
            compute, autograph=False, experimental_attributes={"_noinline": True}
        )
        return function.get_concrete_function(*specs)


def reading_function(
    compute: Callable[..., Any],
    variables: Sequence[tf.TensorSpec],
    specs: Sequence[tf.TensorSpec] = (),
    name: str | None = None,
) -> SharedFunction:
    """Returns a shared function that reads some variables when it runs.

    Its arguments are the handles of the variables, then the other Tensors. It is to be called in
    graphs that are not those of functions, on the device of the variables.

    Args:
      compute: Takes the values of the variables, then the other Tensors.
      variables: Spec of each variable's value.
      specs: Specs of the other Tensors.
      name: Name of the operations that call it.
    """

    def read_and_compute(*inputs: Tensor) -> Any:
        return compute(*map(read_handle, inputs, variables), *inputs[len(variables) :])

    handles = [tf.TensorSpec([], tf.resource)] * len(variables)
    return SharedFunction(read_and_compute, [*handles, *specs], name)


def read_handle(handle: Tensor, spec: tf.TensorSpec) -> Tensor:
    """Reads the variable of a handle, whose value has a spec; called in shared functions."""
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=spec.dtype)
    value.set_shape(spec.shape)
    return value
