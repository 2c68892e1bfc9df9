"""Seeds and random signs: every draw is a function of a name, a tower and a step.

Nothing here keeps state, so a resumed run draws what an uninterrupted one would have drawn. What
to draw from a predicted distribution is in `kfac.loss_functions`. Called by the loss table and
the estimation modes.
"""

import zlib

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor


def stateless_seed(source: str, step: Scalar) -> Tensor:
    """Returns a seed, int64 [2], for TensorFlow's stateless draws.

    Args:
      source: Who draws; different sources draw independently.
      step: Which draw of this source it is, a number or an int Tensor [].
    """
    number = zlib.crc32(source.encode())
    return tf.stack([tf.constant(number, tf.int64), tf.cast(step, tf.int64)])


def random_signs(shape: Tensor, dtype: DType, seed: Tensor) -> Tensor:
    """Draws +1 or −1 with equal probability for every entry.

    Args:
      shape: int [rank].
      dtype: Of the result.
      seed: int [2]. Equal seeds give equal signs.
    """
    bits = tf.random.stateless_uniform(shape, seed, minval=0, maxval=2, dtype=tf.int32)
    return tf.cast(2 * bits - 1, dtype)
