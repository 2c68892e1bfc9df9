"""Seeds and random signs.

Every draw is a function of a seed, which is made on the CPU, where TensorFlow reads it. The
optimizer makes its seeds from a name, a tower and a step that it saves, so a resumed run draws the
same numbers as an uninterrupted one. Losses that are evaluated by hand get seeds that are drawn
anew in each run of a session. The draws from predicted distributions are in `kfac.loss_functions`.
Called by losses, the loss table and the estimation modes.
"""

import zlib
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor
from kfac.state import CPU

v1 = tf.compat.v1


def stateless_seed(source: str, step: Scalar) -> Tensor:
    """Returns a seed, int64 [2], for TensorFlow's stateless draws.

    It is that of draw number `step`, a number or an int Tensor [], of a source. Different sources
    draw independently.
    """
    number = zlib.crc32(source.encode())
    with v1.device(CPU):
        return tf.stack([tf.constant(number, tf.int64), tf.cast(step, tf.int64)])


def fresh_numbers(shape: Sequence[int], seed: int | None) -> Tensor:
    """Draws numbers anew in each run of a session, int64 of the given shape.

    Another session repeats the sequence of numbers under the same conditions as that of
    TensorFlow's random ops: if there is a seed, or the graph has one (`set_random_seed`).
    """
    with v1.device(CPU):
        return v1.random.uniform(shape, maxval=2**63 - 1, dtype=tf.int64, seed=seed)


def random_signs(shape: Tensor, dtype: DType, seed: Tensor) -> Tensor:
    """Draws +1 or −1 with equal probability for every entry.

    Equal seeds, int [2], give equal signs.
    """
    bits = tf.random.stateless_uniform(shape, seed, minval=0, maxval=2, dtype=tf.int32)
    return tf.cast(2 * bits - 1, dtype)
