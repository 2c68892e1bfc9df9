"""TensorFlow functions that are traced once per process and called in all graphs.

A computation that many matrices share is one such function. Its operations, repeated for each
matrix in each graph, would make up most of K-FAC's graphs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Tensor


class SharedFunction:
    """A function of Tensors whose operations are in no graph that calls it.

    `compute` takes a Tensor for each spec, and returns a Tensor or a tuple of Tensors. `name` is
    that of the operations that call it.
    """

    def __init__(
        self, compute: Callable[..., Any], specs: Sequence[tf.TensorSpec], name: str | None = None
    ) -> None:
        """Traces the function."""
        self._name = name
        # Tracing in its own graph keeps devices and control dependencies of the caller out.
        with tf.Graph().as_default():
            traced = tf.function(
                compute, autograph=False, experimental_attributes={"_noinline": True}
            )
            self._function = traced.get_concrete_function(*specs)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Returns all results, with their static shapes."""
        results = self._function.outputs
        dtypes = [result.dtype for result in results]
        found = tf.raw_ops.PartitionedCall(
            args=inputs, Tout=dtypes, f=self._function, name=self._name
        )
        for tensor, result in zip(found, results, strict=True):
            tensor.set_shape(result.shape)
        return list(found)
