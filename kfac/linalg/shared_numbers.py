"""Numbers as arguments of shared functions: each a Tensor that a graph has once."""

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor

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
    made = v1.get_default_graph().get_collection_ref((as_argument,))
    if not made:
        made.append({})
    key = value, dtype, device
    if key not in made[0]:
        with v1.control_dependencies(None), v1.name_scope("kfac/number/"), v1.device(device):
            made[0][key] = v1.placeholder_with_default(tf.constant(value, dtype), [])
    return made[0][key]
