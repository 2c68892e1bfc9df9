"""The norm constraint: a step never changes the model by more than a given amount.

The amount is measured by the (approximate) Fisher norm of the step. Called by the optimizer.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §5.
"""

import tensorflow as tf

from kfac._types import Tensor


def norm_constraint_coefficient(
    squared_norm: Tensor, learning_rate: Tensor, norm_constraint: Tensor
) -> Tensor:
    """Returns min(1, √(c / (α² dᵀg))), the factor by which to shorten a step α·d.

    dᵀg is the squared Fisher norm of d, since d = M⁻¹g gives dᵀMd = dᵀg.

    Args:
      squared_norm: dᵀg, shape []. Zero, as before the first inverse, gives 1.
      learning_rate: α, shape [].
      norm_constraint: c > 0, shape [].

    Returns:
      A factor in (0, 1], shape [].
    """
    size = tf.square(learning_rate) * squared_norm
    is_long = size > norm_constraint
    one = tf.ones_like(size)
    return tf.sqrt(tf.where(is_long, norm_constraint / tf.where(is_long, size, one), one))
