"""Faster ways to compute the gradients of variables, where the model allows them.

Gradients through a max pool are masked before un-pooling, see `kfac.curvature.pooled_gradients`.
Gradients of the biases of convolutions become sums over the gradients of the outputs: TensorFlow's
CPU kernels compute the gradients of a bias and its filter in one op, unless gradients are gated op
by op. That op takes longer than the filter's gradient and a sum together, and K-FAC does not gate
its gradients. Called by the optimizer.
"""

from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Tensor, Variable
from kfac.curvature.pooled_gradients import mask_before_unpooling

v1 = tf.compat.v1


def faster_gradients(grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
    """Returns the gradients of one backward pass, some of them computed in a faster way.

    Dense gradients get the static shapes of their variables. A gradient may be None.
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


def as_sum(gradient: Tensor) -> Tensor:
    """Returns a gradient as a sum, if it is that of the bias of a 2-D convolution."""
    op = gradient.op
    if op.type != "BiasAddGrad":
        return gradient
    outputs = op.inputs[0]
    if outputs.shape.rank != 4 or not any(_is_filter_gradient(c) for c in outputs.consumers()):
        return gradient
    axes = [0, 2, 3] if op.get_attr("data_format") == b"NCHW" else [0, 1, 2]
    with v1.device(op.device):
        return tf.reduce_sum(outputs, axis=axes)


def _is_filter_gradient(op: tf.Operation) -> bool:
    return bool(op.type == "Conv2DBackpropFilter")
