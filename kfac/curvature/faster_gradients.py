"""Faster ways to compute the gradients of variables, where the model allows them.

Owns the list of these ways; each has its own module. Called by the optimizer.
"""

from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Variable
from kfac.curvature.bias_gradients import as_sum
from kfac.curvature.pooled_gradients import mask_before_unpooling


def faster_gradients(grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
    """Returns the same gradients, some of them computed in a faster way.

    Dense gradients get the static shapes of their variables.

    Args:
      grads_and_vars: All (gradient, variable) of one backward pass. A gradient may be None.
    """
    gradients, variables = zip(*grads_and_vars, strict=True)
    masked = mask_before_unpooling(gradients)
    return [(_summed(*pair), pair[1]) for pair in zip(masked, variables, strict=True)]


def _summed(gradient: Any, variable: Variable) -> Any:
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return gradient
    gradient = as_sum(gradient)
    gradient.set_shape(variable.shape)
    return gradient
