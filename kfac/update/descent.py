"""The change of the weights, as one training op with whatever follows it.

Called by the step.
"""

import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

from kfac._types import Operation, Variable
from kfac.linalg.vectors import Vector
from kfac.state import group
from kfac.variables import CapturedVariable, components_of

v1 = tf.compat.v1


@typing.final
class DescentThen(v1.train.GradientDescentOptimizer):
    """Subtracts changes from variables, then runs other ops."""

    def __init__(
        self, name: str, follow: Callable[[Sequence[Operation]], Sequence[Operation]]
    ) -> None:
        """Takes a function that is given the changing ops and returns those to wait for."""
        super().__init__(1.0, name=name)
        self._follow = follow

    def subtract(
        self,
        changes: Sequence[Vector],
        variables: Sequence[Variable],
        global_step: Variable | None,
        name: str | None,
    ) -> Operation:
        """Returns an op that does it all.

        Args:
          changes: What to subtract from each variable.
          variables: The variables.
          global_step: Incremented by one in the end; no captured variables go with it.
          name: Name of the returned op.
        """
        pairs = list(zip(changes, variables, strict=True))
        if not any(isinstance(variable, CapturedVariable) for variable in variables):
            return self.apply_gradients(pairs, global_step=global_step, name=name)
        # TensorFlow's optimizers refuse mirrored variables where all of them are to change.
        changed = [
            _subtract(component, change)
            for change, variable in pairs
            for component in components_of(variable)
        ]
        return group(*self._follow(changed), name=name)

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        return super()._finish(self._follow(update_ops), name_scope)


def _subtract(variable: Variable, change: Vector) -> Operation:
    """Returns an op that subtracts a change from a resource variable."""
    with v1.device(variable.device):
        if isinstance(change, tf.IndexedSlices):
            return tf.raw_ops.ResourceScatterSub(
                resource=variable.handle, indices=change.indices, updates=change.values
            )
        one = tf.constant(1, change.dtype)
        return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=one, delta=change)
