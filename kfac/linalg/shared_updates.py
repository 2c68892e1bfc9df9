"""TensorFlow functions that change variables, traced once per process and called in all graphs.

What is done to each of many variables is one such function, and one operation in a graph. Functions
that change nothing are `kfac.linalg.shared_functions.SharedFunction`.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.linalg.shared_functions import traced

v1 = tf.compat.v1


class SharedUpdate:
    """A function of variables and Tensors that changes the variables.

    `compute` takes a handle for each variable, then a Tensor for each of `specs`, and returns
    nothing. Its reads and changes happen in the order in which it makes them. `name` is that of the
    operations that call it.
    """

    def __init__(
        self,
        compute: Callable[..., None],
        num_variables: int,
        specs: Sequence[tf.TensorSpec],
        name: str,
    ) -> None:
        """Traces the function."""
        self._name = name
        handles = [tf.TensorSpec([], tf.resource)] * num_variables
        self._function = traced(compute, [*handles, *specs])

    def __call__(self, variables: Sequence[Variable], *inputs: Tensor) -> Operation:
        """Returns an op that changes the variables, on the device of the first one."""
        first = variables[0]
        with v1.device(None), v1.device(first.device):
            return tf.raw_ops.StatefulPartitionedCall(
                args=[*(variable.handle for variable in variables), *inputs],
                Tout=[],
                f=self._function,
                name=self._name,
            )
