"""Random rows of a tensor, for statistics of a part of the data.

The choice depends on the data only, so an interrupted and resumed run makes the same choices.
Called by the input factor of convolutions.
"""

import zlib

import tensorflow as tf

from kfac._types import Scalar, Tensor


def sample_rows(rows: Tensor, count: Scalar, name: str) -> Tensor:
    """Returns `count` rows drawn without replacement, or all rows if there are fewer.

    Args:
      rows: [r, ...].
      count: Number of rows, an int or an int32 Tensor [].
      name: Name that varies the draw: different names draw differently from the same data.
    """
    total = tf.reduce_sum(tf.cast(rows, tf.float32))
    seed = tf.stack([zlib.crc32(name.encode()) % 2**31, tf.bitcast(total, tf.int32)])
    order = tf.argsort(tf.random.stateless_uniform([tf.shape(rows)[0]], seed))
    return tf.gather(rows, order[:count])
