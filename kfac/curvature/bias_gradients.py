"""Gradients of the biases of convolutions, as sums over the gradients of the outputs.

TensorFlow's CPU kernels compute the gradients of a bias and its filter in one op, unless gradients
are gated op by op. That op takes longer than the filter's gradient and a sum together. K-FAC does
not gate its gradients, so it uses the sum. Called by `kfac.curvature.faster_gradients`.
"""

import tensorflow as tf

from kfac._types import Tensor

v1 = tf.compat.v1


def as_sum(gradient: Tensor) -> Tensor:
    """Returns the same gradient as a sum, if it is that of the bias of a 2-D convolution.

    Args:
      gradient: Gradient of any variable, as it was computed.
    """
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
