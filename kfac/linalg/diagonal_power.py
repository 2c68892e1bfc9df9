"""Powers of a damped diagonal matrix. Called by the diagonal factors and the blocks made of one."""

import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.linalg.tensor_ops import all_finite_in


def damped_diagonal_power(value: Tensor, damping: Tensor, exponent: float, dtype: DType) -> Tensor:
    """Returns the diagonal of (M + d·I)^e, [n], in a dtype; zero if it is not finite.

    Args:
      value: The diagonal of M, [n].
      damping: d, shape [], in the dtype of M.
      exponent: e.
      dtype: A floating-point dtype.
    """
    damped = value + damping
    power = tf.math.reciprocal(damped) if exponent == -1 else damped**exponent
    power = tf.cast(power, dtype)
    usable = all_finite_in([value, power])
    return tf.math.multiply_no_nan(power, tf.cast(usable, dtype))
