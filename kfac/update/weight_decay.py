"""Weight decay: each step also moves the weights towards zero, in proportion to themselves.

It is added to preconditioned gradients, so that what decays does not depend on the curvature. That
is not the gradient of |θ|²: see `l2_reg` of the optimizer for a penalty. Called by the momentum
rules.

References:
  Zhang, Wang, Xu & Grosse (2019), "Three mechanisms of weight decay regularization",
  arXiv:1810.12281.
"""

from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Scalar, Variable
from kfac.linalg import tensor_ops
from kfac.linalg.vectors import Vector, as_dense
from kfac.state import read


def add_weight_decay(
    vectors: Sequence[Vector], variables: Sequence[Variable], coefficient: Scalar | None
) -> list[Vector]:
    """Returns x + cθ for each vector x and variable θ; dense, as all weights decay.

    Args:
      vectors: Preconditioned gradients, or velocities made of such.
      variables: θ, read now.
      coefficient: c ≥ 0; None means not to decay, and leaves sparse vectors sparse.
    """
    if coefficient is None:
        return list(vectors)
    return [
        as_dense(vector)
        + tensor_ops.as_scalar(coefficient, vector.dtype) * _weights(variable, vector)
        for vector, variable in zip(vectors, variables, strict=True)
    ]


def _weights(variable: Variable, vector: Vector) -> Vector:
    return tf.cast(read(variable), vector.dtype)
