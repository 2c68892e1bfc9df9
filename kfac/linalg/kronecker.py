"""Two factors as one matrix: Kronecker products, the split of the damping, parameters as matrices.

Plain functions, called by the Kronecker blocks.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.3.
"""

import tensorflow as tf

from kfac._types import Parameters, Tensor
from kfac.linalg.shared import shared
from kfac.linalg.tensor_ops import static_size


def kronecker_product(left: Tensor, right: Tensor) -> Tensor:
    """Returns left ⊗ right, [n·m, n·m], of matrices [n, n] and [m, m]."""
    product = tf.einsum("ij,kl->ikjl", left, right)
    size = tf.shape(left)[0] * tf.shape(right)[0]
    return tf.reshape(product, [size, size])


@shared
def balance(a_mean: Tensor, g_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Returns π and 1/π, shape [], by which √λ is split; Martens & Grosse (2015), §6.3.

    π = √((tr A / dim A) / (tr G / dim G)) balances the error terms of π √λ on the diagonal of A and
    of √λ / π on that of G. The means are tr A / dim A and tr G / dim G, shape []. π is 1 where a
    trace is zero, as with outputs that no gradient reached.
    """
    # A ratio of ratios rather than of products: products of small traces underflow in float32.
    ratio = tf.math.divide_no_nan(a_mean, g_mean)
    ratio = tf.where(tf.equal(ratio, 0), tf.ones_like(ratio), ratio)
    return tf.sqrt(ratio), tf.math.rsqrt(ratio)


def layer_params_to_mat2d(params: Parameters) -> Tensor:
    """Returns a layer's parameters, or anything of their shapes, as one matrix [inputs, outputs].

    They are a weight [..., outputs], whose leading axes are flattened in row-major order, or a
    tuple (weight, bias [outputs]). The bias becomes an extra last row. With a bias of several axes
    the weight has these at its end, too.
    """
    if not isinstance(params, (tuple, list)):
        columns = static_size(params, -1)
        return tf.reshape(params, [-1, tf.shape(params)[-1] if columns is None else columns])
    weight, bias = params
    static = bias.shape.num_elements()
    matrix = tf.reshape(weight, [-1, tf.size(bias) if static is None else static])
    return tf.concat([matrix, tf.reshape(bias, [1, -1])], axis=0)


def mat2d_to_layer_params(template: Parameters, matrix: Tensor) -> Parameters:
    """Undoes `layer_params_to_mat2d`, for parameters with the shapes of a template."""
    if not isinstance(template, (tuple, list)):
        return _reshaped(matrix, template)
    weight, bias = template
    return _reshaped(matrix[:-1], weight), _reshaped(matrix[-1], bias)


def _reshaped(tensor: Tensor, template: Parameters) -> Tensor:
    static = template.shape
    return tf.reshape(tensor, static if static.is_fully_defined() else tf.shape(template))
