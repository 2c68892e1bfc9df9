"""Initial weights of the autoencoder on MNIST.

References:
  Martens (2010), "Deep learning via Hessian-free optimization", §5: sparse initialization.
  Glorot & Bengio (2010), "Understanding the difficulty of training deep feedforward neural
  networks", §4.2: uniform weights.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

CONNECTIONS = 15
"""Inputs that each unit begins with in sparse initialization."""


def sparse(shape: Sequence[int], dtype: Any = tf.float32, **_: Any) -> Any:
    """Returns weights [inputs, units]: a unit is connected with 15 inputs by normal weights.

    An initializer for `get_variable`. All other weights are zero.
    """
    inputs, _ = shape
    draws = tf.random.uniform(shape)
    kept = draws >= tf.math.top_k(tf.transpose(draws), min(CONNECTIONS, inputs))[0][:, -1]
    return tf.where(kept, tf.random.normal(shape, dtype=dtype), np.zeros([], dtype.as_numpy_dtype))


INITIALIZERS: Mapping[str, Callable[..., Any] | None] = {"sparse": sparse, "glorot": None}
"""Initializers for `get_variable` by name. None means its default, Glorot's uniform weights."""
