"""tf.contrib.estimator: what `replicate` has under another name."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Variable
from replicate.gradients.delegating import DelegatingOptimizer

v1 = tf.compat.v1

__all__ = ["clip_gradients_by_norm"]


class _ClippingOptimizer(DelegatingOptimizer):
    """Limits the global norm of the gradients that it applies."""

    def __init__(self, optimizer: Any, clip_norm: Any) -> None:
        super().__init__(optimizer, "ClipByNorm")
        self._clip_norm = clip_norm

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        pairs = zip(clipped, variables, strict=True)
        return super().apply_gradients(pairs, global_step, name)


def clip_gradients_by_norm(optimizer: Any, clip_norm: Any) -> v1.train.Optimizer:
    """Makes an optimizer that limits the global norm of the gradients that another one applies.

    Raises:
      TypeError: It is no optimizer.
    """
    return _ClippingOptimizer(optimizer, clip_norm)
