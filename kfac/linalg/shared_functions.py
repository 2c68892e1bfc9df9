"""Functions of TensorFlow that are made once in a process and called in all graphs.

What is computed alike for many matrices is one such function. Its operations in each graph, for
each matrix, would make up most of K-FAC's graphs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Tensor


class SharedFunction:
    """A function of Tensors whose operations are in no graph that calls it."""

    def __init__(self, compute: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> None:
        """Traces the function.

        Args:
          compute: Takes a Tensor for each spec, and returns a Tensor or a tuple of such.
          specs: Shapes and dtypes of its arguments.
        """
        # A graph of its own, so that it takes on nothing of the one that needs it: neither devices
        # nor control dependencies.
        with tf.Graph().as_default():
            traced = tf.function(
                compute, autograph=False, experimental_attributes={"_noinline": True}
            )
            self._function = traced.get_concrete_function(*specs)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Returns all results, with their static shapes."""
        results = self._function.outputs
        dtypes = [result.dtype for result in results]
        found = tf.raw_ops.PartitionedCall(args=inputs, Tout=dtypes, f=self._function)
        for tensor, result in zip(found, results, strict=True):
            tensor.set_shape(result.shape)
        return list(found)
