"""Numbers as arguments of shared functions: each a Tensor that a graph has once."""

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.linalg.shared_constants import made_once

v1 = tf.compat.v1


def as_argument(value: Scalar, dtype: DType, device: str) -> Tensor:
    """Returns a number as a Tensor [], or a Tensor as it is. Not to be called in functions.

    TensorFlow makes and optimizes a function anew for each call that has a constant argument. A
    placeholder with this number as its default does not count as a constant.

    Args:
      value: A number, or a Tensor [].
      dtype: Dtype of a number.
      device: Device of a number.
    """
    if tf.is_tensor(value):
        return value

    def make() -> Tensor:
        return v1.placeholder_with_default(tf.constant(value, dtype), [])

    return made_once(("argument", value, dtype), device, make)
